package io.ackmesh.conformance;

import io.ackmesh.v1.Change;
import io.ackmesh.v1.Open;
import io.ackmesh.v1.Position;
import io.ackmesh.v1.SubscribeRequest;
import io.ackmesh.v1.SubscriptionResult;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The steps that begin, change and end streams. */
final class Subscribing {
  private Subscribing() {}

  /** What Opened says about the one partition of a topic. */
  private record At(String topic, Long next, List<List<Long>> ahead) {
    static At of(Fields f) {
      return new At(f.text("topic"), f.longOrNull("next_offset"), f.pairs("ahead"));
    }

    void check(List<Position> told) {
      for (Position got : told) {
        if (got.getTopic().equals(topic)) {
          Failed.unlessSame("the position in " + topic, got.getNextOffset(), next);
          List<List<Long>> finished =
              got.getFinishedAheadList().stream()
                  .map(r -> List.of(r.getFirst(), r.getLast()))
                  .toList();
          Failed.unlessSame("what is finished ahead in " + topic, finished, ahead);
          return;
        }
      }
      throw new Failed("no position in " + topic + " is told");
    }
  }

  /** Begins a stream and waits for Opened, or for its end where it is refused. */
  static void open(World world, Fields fields) throws InterruptedException {
    Open.Builder message = Open.newBuilder();
    fields.into("open", message);
    Map<String, String> results = fields.map("results");
    List<At> positions = fields.objects("positions", At::of);
    String code = fields.text("code", "OK");
    MeshStream stream = world.connect(fields.text("stream"));
    stream.send(SubscribeRequest.newBuilder().setOpen(message));
    if (!code.equals("OK")) {
      ended(world, stream, code, "");
      return;
    }
    world.await("Opened", List.of(stream), () -> stream.opened != null);
    checkResults(stream.opened.getResultsList(), results);
    positions.forEach(p -> p.check(stream.opened.getPositionsList()));
  }

  /** Subscriptions that are not named are to stand. */
  private static void checkResults(List<SubscriptionResult> results, Map<String, String> want) {
    Set<String> missing = new HashSet<>(want.keySet());
    for (SubscriptionResult result : results) {
      String id = String.valueOf(result.getId());
      missing.remove(id);
      String got = Publishing.codeOf(result.getStatus());
      String right = want.getOrDefault(id, "OK");
      if (!got.equals(right)) {
        String why = got + " " + result.getStatus().getMessage();
        throw new Failed("subscription " + id + " is " + why + ", not " + right);
      }
    }
    if (!missing.isEmpty()) {
      throw new Failed("subscriptions " + missing + " have no result");
    }
  }

  /** Changes the subscriptions of a stream and waits for Changed. */
  static void change(World world, Fields fields) throws InterruptedException {
    Change.Builder message = Change.newBuilder();
    fields.into("change", message);
    Map<String, String> results = fields.map("results");
    MeshStream stream = world.stream(fields.text("stream"));
    stream.send(SubscribeRequest.newBuilder().setChange(message));
    long id = message.getChangeId();
    world.await("Changed", List.of(stream), () -> stream.changed.containsKey(id));
    checkResults(stream.changed.get(id).getResultsList(), results);
  }

  /** Waits for a notice. */
  static void notice(World world, Fields fields) throws InterruptedException {
    MeshStream stream = world.stream(fields.text("stream"));
    String kind = fields.text("kind");
    int subscription = fields.number("subscription", 0);
    world.await(
        "notice " + kind,
        List.of(stream),
        () ->
            stream.notices.stream()
                .anyMatch(
                    n ->
                        n.getKind().name().equals("KIND_" + kind)
                            && n.getSubscription() == subscription));
  }

  /** Ends a stream in order: with OK, and nothing came that no step received. */
  static void end(World world, Fields fields) throws InterruptedException {
    MeshStream stream = world.stream(fields.text("stream"));
    stream.halfClose();
    ended(world, stream, "OK", "");
  }

  /** Waits until the server has ended a stream. */
  static void ended(World world, Fields fields) throws InterruptedException {
    MeshStream stream = world.stream(fields.text("stream"));
    ended(world, stream, fields.text("code", "OK"), fields.text("reason", ""));
  }

  private static void ended(World world, MeshStream stream, String code, String reason)
      throws InterruptedException {
    String what = "the end of stream " + stream.name();
    world.await(what, List.of(stream), () -> stream.end != null);
    if (!stream.end.code().equals(code)) {
      throw new Failed("the stream ended with " + stream.end + ", not " + code);
    }
    if (!reason.isEmpty()) {
      Failed.unlessSame("the reason", stream.end.reason(), reason);
    }
    world.nothingLeft(stream);
  }

  /** Breaks a stream, as a client does that dies. */
  static void breakOff(World world, Fields fields) throws InterruptedException {
    MeshStream stream = world.stream(fields.text("stream"));
    stream.close();
    world.await("the break", List.of(stream), () -> stream.end != null);
    world.forget(stream);
  }
}
