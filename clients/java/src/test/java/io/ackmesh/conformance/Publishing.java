package io.ackmesh.conformance;

import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.rpc.Code;
import com.google.rpc.Status;
import io.ackmesh.v1.EventMeshFrame;
import io.ackmesh.v1.EventMeshGrpc;
import io.ackmesh.v1.PublishRequest;
import io.ackmesh.v1.PublishResponse;
import io.ackmesh.v1.PublishedEvent;
import io.ackmesh.v1.RecommendRequest;
import io.ackmesh.v1.RecommendResponse;
import io.ackmesh.v1.SessionGrpc;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** The steps that are no stream of deliveries. */
final class Publishing {
  private Publishing() {}

  /** One event to publish, and what is to become of it. */
  private record Event(Map<String, String> attributes, String data, String code, Long offset) {
    static Event of(Fields f) {
      String data = f.text("data", "") + "x".repeat(f.number("size", 0));
      return new Event(f.map("attributes"), data, f.text("code", "OK"), f.longOrNull("offset"));
    }

    EventMeshFrame frame() {
      return EventMeshFrame.newBuilder()
          .putAllAttributes(attributes)
          .setData(ByteString.copyFromUtf8(data))
          .build();
    }
  }

  /** One PublishRequest and what its answer is to say. */
  private record Request(String topic, String key, List<Event> events, String code) {
    static Request of(Fields f) {
      List<Event> events = f.objects("events", Event::of);
      return new Request(f.text("topic"), f.text("partition_key", ""), events, f.text("code", "OK"));
    }

    PublishRequest message(long id) {
      return PublishRequest.newBuilder()
          .setTopic(topic)
          .setPartitionKey(key)
          .addAllEvents(events.stream().map(Event::frame).toList())
          .setRequestId(id)
          .build();
    }

    /** The events of a request that was refused as a whole have no fate of their own. */
    void check(PublishResponse answer, long id) {
      Failed.unlessSame("request_id", answer.getRequestId(), id);
      String got = codeOf(answer.getStatus());
      if (!got.equals(code)) {
        String why = got + " " + answer.getStatus().getMessage();
        throw new Failed("the request's status is " + why + ", not " + code);
      }
      if (!got.equals("OK") && answer.getEventsCount() == 0) {
        return;
      }
      Failed.unlessSame("the number of events answered", answer.getEventsCount(), events.size());
      for (int i = 0; i < events.size(); i++) {
        PublishedEvent was = answer.getEvents(i);
        Failed.unlessSame(
            "the status of event " + (i + 1), codeOf(was.getStatus()), events.get(i).code());
        if (events.get(i).offset() != null) {
          Failed.unlessSame(
              "the offset of event " + (i + 1), was.getOffset(), events.get(i).offset());
        }
      }
    }
  }

  /** The code of a status in a message; none is OK. */
  static String codeOf(Status status) {
    return String.valueOf(Code.forNumber(status.getCode()));
  }

  /** Calls Publish once. */
  static void publish(World world, Fields fields) {
    Request request = Request.of(fields);
    ManagedChannel channel = world.dial();
    PublishResponse answer;
    try {
      answer =
          EventMeshGrpc.newBlockingStub(channel)
              .withWaitForReady()
              .withDeadlineAfter(world.patience)
              .publish(request.message(1));
    } catch (StatusRuntimeException e) {
      Status.Builder status = Status.newBuilder().setCode(e.getStatus().getCode().value());
      status.setMessage(String.valueOf(e.getStatus().getDescription()));
      answer = PublishResponse.newBuilder().setRequestId(1).setStatus(status).build();
    } finally {
      channel.shutdownNow();
    }
    request.check(answer, 1);
  }

  /** Sends all requests on one PublishStream and takes the answers, which come in their order. */
  static void publishStream(World world, Fields fields)
      throws InterruptedException, ExecutionException {
    List<Request> requests = fields.objects("requests", Request::of);
    ManagedChannel channel = world.dial();
    List<PublishResponse> answers;
    try {
      Answers all = new Answers();
      StreamObserver<PublishRequest> call =
          EventMeshGrpc.newStub(channel)
              .withWaitForReady()
              .withDeadlineAfter(world.patience)
              .publishStream(all);
      for (int i = 0; i < requests.size(); i++) {
        call.onNext(requests.get(i).message(i + 1));
      }
      call.onCompleted();
      answers = all.complete.get();
    } finally {
      channel.shutdownNow();
    }
    Failed.unlessSame("the number of answers", answers.size(), requests.size());
    for (int i = 0; i < requests.size(); i++) {
      requests.get(i).check(answers.get(i), i + 1);
    }
  }

  /** Gathers answers until their stream ends. */
  private static final class Answers implements StreamObserver<PublishResponse> {
    private final CompletableFuture<List<PublishResponse>> complete = new CompletableFuture<>();
    private final List<PublishResponse> answers = new ArrayList<>();

    @Override
    public void onNext(PublishResponse answer) {
      answers.add(answer);
    }

    @Override
    public void onError(Throwable why) {
      complete.completeExceptionally(why);
    }

    @Override
    public void onCompleted() {
      complete.complete(answers);
    }
  }

  /** Asks where to connect; an instance alone recommends itself. */
  static void recommend(World world, Fields fields) throws IOException, InterruptedException {
    String over = fields.text("over");
    String where =
        switch (over) {
          case "http" -> recommendHttp(world);
          case "grpc" -> recommendGrpc(world, SessionGrpc.getRecommendMethod());
          case "grpc_literal" -> recommendGrpc(world, LITERAL);
          default -> throw new Failed("over " + over + ": it must be http, grpc or grpc_literal");
        };
    Failed.unlessSame("instance_url", where, world.mesh.grpc());
  }

  /** The same call under the path that HTTP clients use too. */
  private static final MethodDescriptor<RecommendRequest, RecommendResponse> LITERAL =
      MethodDescriptor.<RecommendRequest, RecommendResponse>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("session/recommend")
          .setRequestMarshaller(ProtoUtils.marshaller(RecommendRequest.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(RecommendResponse.getDefaultInstance()))
          .build();

  private static String recommendGrpc(
      World world, MethodDescriptor<RecommendRequest, RecommendResponse> method) {
    ManagedChannel channel = world.dial();
    try {
      CallOptions options =
          CallOptions.DEFAULT
              .withWaitForReady()
              .withDeadlineAfter(world.patience.toMillis(), TimeUnit.MILLISECONDS);
      RecommendRequest request =
          RecommendRequest.newBuilder().setClientId("conformance").build();
      return ClientCalls.blockingUnaryCall(channel, method, options, request).getInstanceUrl();
    } finally {
      channel.shutdownNow();
    }
  }

  private static String recommendHttp(World world) throws IOException, InterruptedException {
    String url = "http://" + world.mesh.http() + "/session/recommend?client_id=conformance";
    HttpRequest request = HttpRequest.newBuilder(URI.create(url)).timeout(world.patience).build();
    HttpResponse<String> answer = http(request);
    Failed.unlessSame("the HTTP status", answer.statusCode(), 200);
    return JsonParser.parseString(answer.body()).getAsJsonObject().get("instanceUrl").getAsString();
  }

  /** Has the server killed and started again. */
  static void crash(World world, Fields fields) throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(world.mesh.control() + "/crash"))
            .POST(HttpRequest.BodyPublishers.noBody())
            .build();
    Failed.unlessSame("the status of crash", http(request).statusCode(), 200);
  }

  private static HttpResponse<String> http(HttpRequest request)
      throws IOException, InterruptedException {
    return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
  }
}
