package io.ackmesh.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * EventMesh is the data service: publish events, subscribe to them, ack them.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class EventMeshGrpc {

  private EventMeshGrpc() {}

  public static final String SERVICE_NAME = "ackmesh.v1.EventMesh";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.PublishRequest,
      io.ackmesh.v1.PublishResponse> getPublishMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Publish",
      requestType = io.ackmesh.v1.PublishRequest.class,
      responseType = io.ackmesh.v1.PublishResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.PublishRequest,
      io.ackmesh.v1.PublishResponse> getPublishMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.PublishRequest, io.ackmesh.v1.PublishResponse> getPublishMethod;
    if ((getPublishMethod = EventMeshGrpc.getPublishMethod) == null) {
      synchronized (EventMeshGrpc.class) {
        if ((getPublishMethod = EventMeshGrpc.getPublishMethod) == null) {
          EventMeshGrpc.getPublishMethod = getPublishMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.PublishRequest, io.ackmesh.v1.PublishResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Publish"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PublishRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PublishResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EventMeshMethodDescriptorSupplier("Publish"))
              .build();
        }
      }
    }
    return getPublishMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.PublishRequest,
      io.ackmesh.v1.PublishResponse> getPublishStreamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PublishStream",
      requestType = io.ackmesh.v1.PublishRequest.class,
      responseType = io.ackmesh.v1.PublishResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.PublishRequest,
      io.ackmesh.v1.PublishResponse> getPublishStreamMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.PublishRequest, io.ackmesh.v1.PublishResponse> getPublishStreamMethod;
    if ((getPublishStreamMethod = EventMeshGrpc.getPublishStreamMethod) == null) {
      synchronized (EventMeshGrpc.class) {
        if ((getPublishStreamMethod = EventMeshGrpc.getPublishStreamMethod) == null) {
          EventMeshGrpc.getPublishStreamMethod = getPublishStreamMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.PublishRequest, io.ackmesh.v1.PublishResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PublishStream"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PublishRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PublishResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EventMeshMethodDescriptorSupplier("PublishStream"))
              .build();
        }
      }
    }
    return getPublishStreamMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.SubscribeRequest,
      io.ackmesh.v1.SubscribeResponse> getSubscribeMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Subscribe",
      requestType = io.ackmesh.v1.SubscribeRequest.class,
      responseType = io.ackmesh.v1.SubscribeResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.SubscribeRequest,
      io.ackmesh.v1.SubscribeResponse> getSubscribeMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.SubscribeRequest, io.ackmesh.v1.SubscribeResponse> getSubscribeMethod;
    if ((getSubscribeMethod = EventMeshGrpc.getSubscribeMethod) == null) {
      synchronized (EventMeshGrpc.class) {
        if ((getSubscribeMethod = EventMeshGrpc.getSubscribeMethod) == null) {
          EventMeshGrpc.getSubscribeMethod = getSubscribeMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.SubscribeRequest, io.ackmesh.v1.SubscribeResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Subscribe"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.SubscribeRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.SubscribeResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EventMeshMethodDescriptorSupplier("Subscribe"))
              .build();
        }
      }
    }
    return getSubscribeMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static EventMeshStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<EventMeshStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<EventMeshStub>() {
        @java.lang.Override
        public EventMeshStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new EventMeshStub(channel, callOptions);
        }
      };
    return EventMeshStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static EventMeshBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<EventMeshBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<EventMeshBlockingStub>() {
        @java.lang.Override
        public EventMeshBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new EventMeshBlockingStub(channel, callOptions);
        }
      };
    return EventMeshBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static EventMeshFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<EventMeshFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<EventMeshFutureStub>() {
        @java.lang.Override
        public EventMeshFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new EventMeshFutureStub(channel, callOptions);
        }
      };
    return EventMeshFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * EventMesh is the data service: publish events, subscribe to them, ack them.
   * </pre>
   */
  public static abstract class EventMeshImplBase implements io.grpc.BindableService {

    /**
     * <pre>
     * Publish appends events to a topic. The answer is sent once every event
     * that it calls OK is durable. One bad event never hides the fate of the
     * others: each has a status of its own in PublishResponse.events.
     * </pre>
     */
    public void publish(io.ackmesh.v1.PublishRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPublishMethod(), responseObserver);
    }

    /**
     * <pre>
     * PublishStream is Publish, pipelined: requests may be sent without waiting
     * for answers, and answers come in the order of the requests. A bad request
     * is answered with its status and does not end the stream.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishRequest> publishStream(
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getPublishStreamMethod(), responseObserver);
    }

    /**
     * <pre>
     * Subscribe delivers events and takes their acks on one stream. The first
     * message must be Open. Half-closing the sending side asks for an orderly
     * end: no new deliveries, acks still answered, what is unfinished is given
     * back, then the stream ends with OK.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeRequest> subscribe(
        io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getSubscribeMethod(), responseObserver);
    }

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
          .addMethod(
            getPublishMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.PublishRequest,
                io.ackmesh.v1.PublishResponse>(
                  this, METHODID_PUBLISH)))
          .addMethod(
            getPublishStreamMethod(),
            io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
              new MethodHandlers<
                io.ackmesh.v1.PublishRequest,
                io.ackmesh.v1.PublishResponse>(
                  this, METHODID_PUBLISH_STREAM)))
          .addMethod(
            getSubscribeMethod(),
            io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
              new MethodHandlers<
                io.ackmesh.v1.SubscribeRequest,
                io.ackmesh.v1.SubscribeResponse>(
                  this, METHODID_SUBSCRIBE)))
          .build();
    }
  }

  /**
   * <pre>
   * EventMesh is the data service: publish events, subscribe to them, ack them.
   * </pre>
   */
  public static final class EventMeshStub extends io.grpc.stub.AbstractAsyncStub<EventMeshStub> {
    private EventMeshStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected EventMeshStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new EventMeshStub(channel, callOptions);
    }

    /**
     * <pre>
     * Publish appends events to a topic. The answer is sent once every event
     * that it calls OK is durable. One bad event never hides the fate of the
     * others: each has a status of its own in PublishResponse.events.
     * </pre>
     */
    public void publish(io.ackmesh.v1.PublishRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPublishMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * PublishStream is Publish, pipelined: requests may be sent without waiting
     * for answers, and answers come in the order of the requests. A bad request
     * is answered with its status and does not end the stream.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishRequest> publishStream(
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getPublishStreamMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * Subscribe delivers events and takes their acks on one stream. The first
     * message must be Open. Half-closing the sending side asks for an orderly
     * end: no new deliveries, acks still answered, what is unfinished is given
     * back, then the stream ends with OK.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeRequest> subscribe(
        io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getSubscribeMethod(), getCallOptions()), responseObserver);
    }
  }

  /**
   * <pre>
   * EventMesh is the data service: publish events, subscribe to them, ack them.
   * </pre>
   */
  public static final class EventMeshBlockingStub extends io.grpc.stub.AbstractBlockingStub<EventMeshBlockingStub> {
    private EventMeshBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected EventMeshBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new EventMeshBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Publish appends events to a topic. The answer is sent once every event
     * that it calls OK is durable. One bad event never hides the fate of the
     * others: each has a status of its own in PublishResponse.events.
     * </pre>
     */
    public io.ackmesh.v1.PublishResponse publish(io.ackmesh.v1.PublishRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPublishMethod(), getCallOptions(), request);
    }
  }

  /**
   * <pre>
   * EventMesh is the data service: publish events, subscribe to them, ack them.
   * </pre>
   */
  public static final class EventMeshFutureStub extends io.grpc.stub.AbstractFutureStub<EventMeshFutureStub> {
    private EventMeshFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected EventMeshFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new EventMeshFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Publish appends events to a topic. The answer is sent once every event
     * that it calls OK is durable. One bad event never hides the fate of the
     * others: each has a status of its own in PublishResponse.events.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.PublishResponse> publish(
        io.ackmesh.v1.PublishRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPublishMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_PUBLISH = 0;
  private static final int METHODID_PUBLISH_STREAM = 1;
  private static final int METHODID_SUBSCRIBE = 2;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final EventMeshImplBase serviceImpl;
    private final int methodId;

    MethodHandlers(EventMeshImplBase serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_PUBLISH:
          serviceImpl.publish((io.ackmesh.v1.PublishRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_PUBLISH_STREAM:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.publishStream(
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishResponse>) responseObserver);
        case METHODID_SUBSCRIBE:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.subscribe(
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  private static abstract class EventMeshBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    EventMeshBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.ackmesh.v1.EventMeshProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("EventMesh");
    }
  }

  private static final class EventMeshFileDescriptorSupplier
      extends EventMeshBaseDescriptorSupplier {
    EventMeshFileDescriptorSupplier() {}
  }

  private static final class EventMeshMethodDescriptorSupplier
      extends EventMeshBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final String methodName;

    EventMeshMethodDescriptorSupplier(String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (EventMeshGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new EventMeshFileDescriptorSupplier())
              .addMethod(getPublishMethod())
              .addMethod(getPublishStreamMethod())
              .addMethod(getSubscribeMethod())
              .build();
        }
      }
    }
    return result;
  }
}
