package io.ackmesh.conformance;

import com.google.protobuf.util.Durations;
import io.ackmesh.conformance.World.Held;
import io.ackmesh.v1.Ack;
import io.ackmesh.v1.DeliveryRange;
import io.ackmesh.v1.Extend;
import io.ackmesh.v1.Nack;
import io.ackmesh.v1.SubscribeRequest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The steps that answer deliveries. */
final class Answering {
  private Answering() {}

  /** Deliveries, on their own stream or another, and their AckResult. */
  private record Selection(MeshStream stream, List<Long> all, boolean asRange, String status) {
    static Selection of(World world, Fields fields) {
      List<Long> all = new ArrayList<>(fields.longs("ids"));
      String name = fields.text("stream", null);
      MeshStream stream = name == null ? null : world.stream(name);
      for (String label : fields.texts("deliveries")) {
        Held held = world.held.get(label);
        if (held == null) {
          throw new Failed("nothing was received as " + label);
        }
        stream = stream == null ? held.stream() : stream;
        all.add(held.delivery().getDeliveryId());
      }
      if (stream == null || all.isEmpty()) {
        throw new Failed("no stream or no delivery is named");
      }
      String status = fields.text("status", "DURABLE");
      return new Selection(stream, all, fields.flag("as_range"), status);
    }

    /** What is sent one by one. */
    List<Long> ids() {
      return asRange ? List.of() : all;
    }

    /** What is sent as a range. */
    List<DeliveryRange> ranges() {
      DeliveryRange.Builder range = DeliveryRange.newBuilder();
      range.setFirst(Collections.min(all)).setLast(Collections.max(all));
      return asRange ? List.of(range.build()) : List.of();
    }

    /** Waits until every id has an answer, and takes it. */
    void settle(World world) throws InterruptedException {
      if (status.equals("NONE")) {
        return;
      }
      for (long id : all) {
        world.await("an AckResult", List.of(stream), () -> !stream.fatesOf(id).isEmpty());
        Failed.unlessSame("the AckResult", stream.fatesOf(id).remove().name(), "STATUS_" + status);
      }
    }
  }

  /** Acks deliveries and waits for the answer. */
  static void ack(World world, Fields fields) throws InterruptedException {
    Selection of = Selection.of(world, fields);
    Ack.Builder message = Ack.newBuilder().addAllDeliveryIds(of.ids()).addAllRanges(of.ranges());
    of.stream().send(SubscribeRequest.newBuilder().setAck(message));
    of.settle(world);
  }

  /** Gives deliveries back and waits for the answer. */
  static void nack(World world, Fields fields) throws InterruptedException {
    Selection of = Selection.of(world, fields);
    Nack.Builder message = Nack.newBuilder().addAllDeliveryIds(of.ids()).addAllRanges(of.ranges());
    message.setReason(fields.text("reason", "")).setDeadLetter(fields.flag("dead_letter"));
    if (fields.has("delay_ms")) {
      message.setDelay(Durations.fromMillis(fields.longOrNull("delay_ms")));
    }
    world.nacked = System.nanoTime();
    of.stream().send(SubscribeRequest.newBuilder().setNack(message));
    of.settle(world);
  }

  /** Moves the deadline of deliveries; nothing answers it. */
  static void extend(World world, Fields fields) {
    Selection of = Selection.of(world, fields);
    Extend.Builder message = Extend.newBuilder();
    message.addAllDeliveryIds(of.ids()).addAllRanges(of.ranges());
    message.setBy(Durations.fromMillis(fields.longOrNull("by_ms")));
    of.stream().send(SubscribeRequest.newBuilder().setExtend(message));
  }
}
