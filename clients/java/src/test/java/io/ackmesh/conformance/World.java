package io.ackmesh.conformance;

import io.ackmesh.v1.Delivery;
import io.ackmesh.v1.Run;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * One scenario under way. Everything that streams bring comes through arrivals, so that one thread
 * knows all of it.
 */
final class World implements AutoCloseable {
  /** One delivery and what its run says. */
  record Held(MeshStream stream, Run run, Delivery delivery, long nanos) {
    @Override
    public String toString() {
      String data = delivery.getFrame().getData().toStringUtf8();
      return String.format(
          "'%.40s' of %s, offset %d, attempt %d",
          data, run.getTopic(), delivery.getOffset(), delivery.getAttempt());
    }
  }

  final Mesh mesh;
  final Duration patience;

  /** What was received, by its labels. */
  final Map<String, Held> held = new HashMap<>();

  /** When the last nack was sent, by System.nanoTime. */
  long nacked;

  private final BlockingQueue<MeshStream.Arrival> arrivals = new LinkedBlockingQueue<>();
  private final Map<String, MeshStream> streams = new TreeMap<>();

  /** What arrived and no step has received. */
  private final List<Held> waiting = new ArrayList<>();

  World(Mesh mesh, Duration patience) {
    this.mesh = mesh;
    this.patience = patience;
  }

  @Override
  public void close() {
    streams.values().forEach(MeshStream::close);
  }

  /** Connects anew. */
  ManagedChannel dial() {
    return ManagedChannelBuilder.forTarget(mesh.grpc()).usePlaintext().build();
  }

  /** Begins a stream, and replaces one of that name which has ended. */
  MeshStream connect(String name) {
    MeshStream old = streams.get(name);
    if (old != null && old.end == null) {
      throw new Failed("stream " + name + " is open");
    }
    MeshStream stream = new MeshStream(name, dial(), arrivals::add);
    streams.put(name, stream);
    return stream;
  }

  MeshStream stream(String name) {
    if (!streams.containsKey(name)) {
      throw new Failed("no stream is called " + name);
    }
    return streams.get(name);
  }

  List<MeshStream> openStreams() {
    return streams.values().stream().filter(s -> s.end == null).toList();
  }

  /**
   * Takes in what arrives until ok. It fails when the patience is over, or the only streams that
   * could bring it have ended.
   */
  void await(String what, List<MeshStream> of, BooleanSupplier ok) throws InterruptedException {
    long deadline = System.nanoTime() + patience.toNanos();
    while (!ok.getAsBoolean()) {
      if (of.stream().allMatch(s -> s.end != null)) {
        MeshStream first = of.get(0);
        throw new Failed(
            what + " did not come: stream " + first.name() + " ended with " + first.end);
      }
      var arrival = arrivals.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      if (arrival == null) {
        throw new Failed(what + " did not come within " + patience);
      }
      take(arrival);
    }
  }

  private void take(MeshStream.Arrival arrival) {
    MeshStream stream = arrival.stream();
    if (arrival.end() != null) {
      stream.end = arrival.end();
      stream.close();
      return;
    }
    stream.take(arrival.message());
    for (Run run : arrival.message().getDeliveries().getRunsList()) {
      for (Delivery delivery : run.getDeliveriesList()) {
        waiting.add(new Held(stream, run, delivery, arrival.nanos()));
      }
    }
  }

  /** Takes the first deliveries of some streams that are waiting. */
  List<Held> pick(List<MeshStream> of, int count) {
    List<Held> got = new ArrayList<>();
    waiting.removeIf(h -> got.size() < count && of.contains(h.stream()) && got.add(h));
    return got;
  }

  /** Forgets what a stream brought and no step received. */
  void forget(MeshStream stream) {
    waiting.removeIf(h -> h.stream() == stream);
  }

  /** Fails if a stream brought a delivery that no step received. */
  void nothingLeft(MeshStream stream) {
    for (Held h : waiting) {
      if (h.stream() == stream) {
        throw new Failed("stream " + stream.name() + " brought what no step received: " + h);
      }
    }
  }
}
