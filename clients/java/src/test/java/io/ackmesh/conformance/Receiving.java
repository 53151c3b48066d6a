package io.ackmesh.conformance;

import io.ackmesh.conformance.World.Held;
import io.ackmesh.v1.EventMeshFrame;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The step that receives deliveries. */
final class Receiving {
  private Receiving() {}

  /** One delivery. What is not set may be anything, but attempt. */
  private record Expected(
      String label,
      String stream,
      Long subscription,
      String topic,
      Long offset,
      int attempt,
      String data,
      Map<String, String> attributes) {
    static Expected of(Fields f) {
      return new Expected(
          f.text("as", ""),
          f.text("stream", null),
          f.longOrNull("subscription"),
          f.text("topic", null),
          f.longOrNull("offset"),
          f.number("attempt", 1),
          f.text("data", null),
          f.map("attributes"));
    }

    void check(Held held) {
      EventMeshFrame frame = held.delivery().getFrame();
      Failed.unlessSame("attempt", held.delivery().getAttempt(), attempt);
      same("stream", held.stream().name(), stream);
      same("subscription", (long) held.run().getSubscription(), subscription);
      same("topic", held.run().getTopic(), topic);
      same("offset", held.delivery().getOffset(), offset);
      same("data", frame.getData().toStringUtf8(), data);
      attributes.forEach(
          (name, value) ->
              same("attribute " + name, frame.getAttributesOrDefault(name, null), value));
    }

    private static void same(String what, Object got, Object want) {
      if (want != null) {
        Failed.unlessSame(what, got, want);
      }
    }
  }

  /** Waits for deliveries: exactly these, and in this order unless any_order. */
  static void receive(World world, Fields fields) throws InterruptedException {
    List<MeshStream> of = fields.texts("streams").stream().map(world::stream).toList();
    List<Expected> open = fields.objects("deliveries", Expected::of);
    boolean anyOrder = fields.flag("any_order");
    long after = Duration.ofMillis(fields.number("after_ms", 0)).toNanos();
    for (Held held : take(world, of, open.size())) {
      Expected expected = match(held, anyOrder ? open : open.subList(0, 1));
      long early = world.nacked + after - held.nanos();
      if (after > 0 && early > 0) {
        throw new Failed(held + " came " + Duration.ofNanos(early) + " early");
      }
      open.remove(expected);
      if (!expected.label().isEmpty()) {
        world.held.put(expected.label(), held);
      }
    }
  }

  private static List<Held> take(World world, List<MeshStream> of, int count)
      throws InterruptedException {
    List<Held> got = new ArrayList<>();
    try {
      world.await(
          "the last of " + count + " deliveries",
          of,
          () -> {
            got.addAll(world.pick(of, count - got.size()));
            return got.size() == count;
          });
    } catch (Failed why) {
      throw new Failed(why.getMessage() + "; " + got.size() + " came: " + got);
    }
    return got;
  }

  /** Which of the open expectations a delivery meets. */
  private static Expected match(Held held, List<Expected> open) {
    Failed why = new Failed("nothing more was to come");
    for (Expected expected : open) {
      try {
        expected.check(held);
        return expected;
      } catch (Failed failed) {
        why = failed;
      }
    }
    throw new Failed(held + " came: " + why.getMessage());
  }
}
