package io.ackmesh.conformance;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.ackmesh.v1.AckResult;
import io.ackmesh.v1.Changed;
import io.ackmesh.v1.EventMeshGrpc;
import io.ackmesh.v1.Notice;
import io.ackmesh.v1.Opened;
import io.ackmesh.v1.SubscribeRequest;
import io.ackmesh.v1.SubscribeResponse;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** One Subscribe call on a connection of its own, and what it has told so far. */
final class MeshStream {
  /** How a stream ended. */
  record End(String code, String message, String reason) {}

  /** One message of a stream, or its end: the other is null. */
  record Arrival(MeshStream stream, long nanos, SubscribeResponse message, End end) {}

  private final String name;
  private final ManagedChannel channel;
  private final ClientCallStreamObserver<SubscribeRequest> requests;

  Opened opened;
  final Map<Long, Changed> changed = new HashMap<>();
  final List<Notice> notices = new ArrayList<>();
  End end;

  /** Of each delivery id, the statuses that no step has looked at yet. */
  private final Map<Long, Deque<AckResult.Status>> fates = new HashMap<>();

  MeshStream(String name, ManagedChannel channel, Consumer<Arrival> arrivals) {
    this.name = name;
    this.channel = channel;
    requests =
        (ClientCallStreamObserver<SubscribeRequest>)
            EventMeshGrpc.newStub(channel).withWaitForReady().subscribe(new Reader(arrivals));
  }

  /** Passes on what the stream brings. */
  private final class Reader implements StreamObserver<SubscribeResponse> {
    private final Consumer<Arrival> arrivals;

    Reader(Consumer<Arrival> arrivals) {
      this.arrivals = arrivals;
    }

    private void pass(SubscribeResponse message, End end) {
      arrivals.accept(new Arrival(MeshStream.this, System.nanoTime(), message, end));
    }

    @Override
    public void onNext(SubscribeResponse message) {
      pass(message, null);
    }

    @Override
    public void onError(Throwable why) {
      Status status = Status.fromThrowable(why);
      pass(null, new End(status.getCode().name(), status.getDescription(), reason(why)));
    }

    @Override
    public void onCompleted() {
      pass(null, new End("OK", "", ""));
    }
  }

  /** The reason of the ErrorInfo of a status; empty: it has none. */
  private static String reason(Throwable why) {
    com.google.rpc.Status status = StatusProto.fromThrowable(why);
    if (status == null) {
      return "";
    }
    for (Any detail : status.getDetailsList()) {
      if (detail.is(ErrorInfo.class)) {
        try {
          return detail.unpack(ErrorInfo.class).getReason();
        } catch (InvalidProtocolBufferException e) {
          return e.getMessage();
        }
      }
    }
    return "";
  }

  String name() {
    return name;
  }

  void send(SubscribeRequest.Builder message) {
    requests.onNext(message.build());
  }

  void halfClose() {
    requests.onCompleted();
  }

  /** Breaks the stream if it has not ended, and its connection. */
  void close() {
    requests.cancel("closed", null);
    channel.shutdownNow();
  }

  /** The statuses of a delivery id that no step has looked at. */
  Deque<AckResult.Status> fatesOf(long id) {
    return fates.computeIfAbsent(id, i -> new ArrayDeque<>());
  }

  /** Notes one message where it belongs; deliveries are not its business. */
  void take(SubscribeResponse message) {
    switch (message.getKindCase()) {
      case OPENED -> opened = message.getOpened();
      case CHANGED -> changed.put(message.getChanged().getChangeId(), message.getChanged());
      case NOTICE -> notices.add(message.getNotice());
      case ACK_RESULT -> message.getAckResult().getOutcomesList().forEach(this::take);
      case DELIVERIES -> {}
      case KIND_NOT_SET -> throw new Failed("a message of stream " + name + " has no kind");
    }
  }

  private void take(AckResult.Outcome outcome) {
    outcome.getDeliveryIdsList().forEach(id -> fatesOf(id).add(outcome.getStatus()));
    outcome
        .getRangesList()
        .forEach(
            range -> {
              for (long id = range.getFirst(); id <= range.getLast(); id++) {
                fatesOf(id).add(outcome.getStatus());
              }
            });
  }
}
