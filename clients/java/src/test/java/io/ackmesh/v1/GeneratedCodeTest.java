package io.ackmesh.v1;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import org.junit.jupiter.api.Test;

/** The generated messages and stubs load and work with the runtime that the client ships. */
class GeneratedCodeTest {

  @Test
  void messageSurvivesTheWire() throws InvalidProtocolBufferException {
    PublishRequest sent =
        PublishRequest.newBuilder()
            .setTopic("orders")
            .addEvents(
                EventMeshFrame.newBuilder()
                    .setType(MessageType.MESSAGE_TYPE_EVENT)
                    .putAttributes("id", "a")
                    .setData(ByteString.copyFromUtf8("hi")))
            .build();

    assertEquals(sent, PublishRequest.parseFrom(sent.toByteArray()));
  }

  @Test
  void stubReachesAServer() throws IOException {
    Server server =
        InProcessServerBuilder.forName("generated").addService(new EchoSession()).build().start();
    ManagedChannel channel = InProcessChannelBuilder.forName("generated").build();
    try {
      RecommendResponse answer =
          SessionGrpc.newBlockingStub(channel)
              .recommend(RecommendRequest.newBuilder().setClientId("c1").build());

      assertEquals("instance of c1", answer.getInstanceId());
    } finally {
      channel.shutdownNow();
      server.shutdownNow();
    }
  }

  private static final class EchoSession extends SessionGrpc.SessionImplBase {
    @Override
    public void recommend(
        RecommendRequest request, StreamObserver<RecommendResponse> observer) {
      observer.onNext(
          RecommendResponse.newBuilder()
              .setInstanceId("instance of " + request.getClientId())
              .build());
      observer.onCompleted();
    }
  }
}
