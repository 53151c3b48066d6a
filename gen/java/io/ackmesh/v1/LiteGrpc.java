package io.ackmesh.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Lite serves lite topics: many small, ordered, short-lived topics below one
 * parent. Backends without them answer UNIMPLEMENTED. What a caller may do with a
 * lite topic is what it may do with the parent.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class LiteGrpc {

  private LiteGrpc() {}

  public static final String SERVICE_NAME = "ackmesh.v1.Lite";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.CreateLiteTopicRequest,
      io.ackmesh.v1.CreateLiteTopicResponse> getCreateLiteTopicMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateLiteTopic",
      requestType = io.ackmesh.v1.CreateLiteTopicRequest.class,
      responseType = io.ackmesh.v1.CreateLiteTopicResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.CreateLiteTopicRequest,
      io.ackmesh.v1.CreateLiteTopicResponse> getCreateLiteTopicMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.CreateLiteTopicRequest, io.ackmesh.v1.CreateLiteTopicResponse> getCreateLiteTopicMethod;
    if ((getCreateLiteTopicMethod = LiteGrpc.getCreateLiteTopicMethod) == null) {
      synchronized (LiteGrpc.class) {
        if ((getCreateLiteTopicMethod = LiteGrpc.getCreateLiteTopicMethod) == null) {
          LiteGrpc.getCreateLiteTopicMethod = getCreateLiteTopicMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.CreateLiteTopicRequest, io.ackmesh.v1.CreateLiteTopicResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateLiteTopic"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.CreateLiteTopicRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.CreateLiteTopicResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LiteMethodDescriptorSupplier("CreateLiteTopic"))
              .build();
        }
      }
    }
    return getCreateLiteTopicMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.PublishLiteRequest,
      io.ackmesh.v1.PublishLiteResponse> getPublishLiteMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PublishLite",
      requestType = io.ackmesh.v1.PublishLiteRequest.class,
      responseType = io.ackmesh.v1.PublishLiteResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.PublishLiteRequest,
      io.ackmesh.v1.PublishLiteResponse> getPublishLiteMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.PublishLiteRequest, io.ackmesh.v1.PublishLiteResponse> getPublishLiteMethod;
    if ((getPublishLiteMethod = LiteGrpc.getPublishLiteMethod) == null) {
      synchronized (LiteGrpc.class) {
        if ((getPublishLiteMethod = LiteGrpc.getPublishLiteMethod) == null) {
          LiteGrpc.getPublishLiteMethod = getPublishLiteMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.PublishLiteRequest, io.ackmesh.v1.PublishLiteResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PublishLite"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PublishLiteRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PublishLiteResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LiteMethodDescriptorSupplier("PublishLite"))
              .build();
        }
      }
    }
    return getPublishLiteMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.SubscribeLiteRequest,
      io.ackmesh.v1.SubscribeLiteResponse> getSubscribeLiteMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubscribeLite",
      requestType = io.ackmesh.v1.SubscribeLiteRequest.class,
      responseType = io.ackmesh.v1.SubscribeLiteResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.SubscribeLiteRequest,
      io.ackmesh.v1.SubscribeLiteResponse> getSubscribeLiteMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.SubscribeLiteRequest, io.ackmesh.v1.SubscribeLiteResponse> getSubscribeLiteMethod;
    if ((getSubscribeLiteMethod = LiteGrpc.getSubscribeLiteMethod) == null) {
      synchronized (LiteGrpc.class) {
        if ((getSubscribeLiteMethod = LiteGrpc.getSubscribeLiteMethod) == null) {
          LiteGrpc.getSubscribeLiteMethod = getSubscribeLiteMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.SubscribeLiteRequest, io.ackmesh.v1.SubscribeLiteResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubscribeLite"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.SubscribeLiteRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.SubscribeLiteResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LiteMethodDescriptorSupplier("SubscribeLite"))
              .build();
        }
      }
    }
    return getSubscribeLiteMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static LiteStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LiteStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LiteStub>() {
        @java.lang.Override
        public LiteStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LiteStub(channel, callOptions);
        }
      };
    return LiteStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static LiteBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LiteBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LiteBlockingStub>() {
        @java.lang.Override
        public LiteBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LiteBlockingStub(channel, callOptions);
        }
      };
    return LiteBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static LiteFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LiteFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LiteFutureStub>() {
        @java.lang.Override
        public LiteFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LiteFutureStub(channel, callOptions);
        }
      };
    return LiteFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Lite serves lite topics: many small, ordered, short-lived topics below one
   * parent. Backends without them answer UNIMPLEMENTED. What a caller may do with a
   * lite topic is what it may do with the parent.
   * </pre>
   */
  public static abstract class LiteImplBase implements io.grpc.BindableService {

    /**
     * <pre>
     * CreateLiteTopic makes a lite topic. It succeeds if it exists already.
     * Publishing and subscribing make it too.
     * </pre>
     */
    public void createLiteTopic(io.ackmesh.v1.CreateLiteTopicRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.CreateLiteTopicResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateLiteTopicMethod(), responseObserver);
    }

    /**
     * <pre>
     * PublishLite appends events to a lite topic; durable when answered.
     * </pre>
     */
    public void publishLite(io.ackmesh.v1.PublishLiteRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishLiteResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPublishLiteMethod(), responseObserver);
    }

    /**
     * <pre>
     * SubscribeLite delivers the events of lite topics in order and takes acks.
     * It is EventMesh.Subscribe in all else: the first message must be OpenLite,
     * half-closing asks for an orderly end. Each client gets every event of the
     * lite topics that it names, from the first one that the log still holds, and
     * goes on where it was.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeLiteRequest> subscribeLite(
        io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeLiteResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getSubscribeLiteMethod(), responseObserver);
    }

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
          .addMethod(
            getCreateLiteTopicMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.CreateLiteTopicRequest,
                io.ackmesh.v1.CreateLiteTopicResponse>(
                  this, METHODID_CREATE_LITE_TOPIC)))
          .addMethod(
            getPublishLiteMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.PublishLiteRequest,
                io.ackmesh.v1.PublishLiteResponse>(
                  this, METHODID_PUBLISH_LITE)))
          .addMethod(
            getSubscribeLiteMethod(),
            io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
              new MethodHandlers<
                io.ackmesh.v1.SubscribeLiteRequest,
                io.ackmesh.v1.SubscribeLiteResponse>(
                  this, METHODID_SUBSCRIBE_LITE)))
          .build();
    }
  }

  /**
   * <pre>
   * Lite serves lite topics: many small, ordered, short-lived topics below one
   * parent. Backends without them answer UNIMPLEMENTED. What a caller may do with a
   * lite topic is what it may do with the parent.
   * </pre>
   */
  public static final class LiteStub extends io.grpc.stub.AbstractAsyncStub<LiteStub> {
    private LiteStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LiteStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LiteStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateLiteTopic makes a lite topic. It succeeds if it exists already.
     * Publishing and subscribing make it too.
     * </pre>
     */
    public void createLiteTopic(io.ackmesh.v1.CreateLiteTopicRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.CreateLiteTopicResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateLiteTopicMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * PublishLite appends events to a lite topic; durable when answered.
     * </pre>
     */
    public void publishLite(io.ackmesh.v1.PublishLiteRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishLiteResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPublishLiteMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SubscribeLite delivers the events of lite topics in order and takes acks.
     * It is EventMesh.Subscribe in all else: the first message must be OpenLite,
     * half-closing asks for an orderly end. Each client gets every event of the
     * lite topics that it names, from the first one that the log still holds, and
     * goes on where it was.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeLiteRequest> subscribeLite(
        io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeLiteResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getSubscribeLiteMethod(), getCallOptions()), responseObserver);
    }
  }

  /**
   * <pre>
   * Lite serves lite topics: many small, ordered, short-lived topics below one
   * parent. Backends without them answer UNIMPLEMENTED. What a caller may do with a
   * lite topic is what it may do with the parent.
   * </pre>
   */
  public static final class LiteBlockingStub extends io.grpc.stub.AbstractBlockingStub<LiteBlockingStub> {
    private LiteBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LiteBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LiteBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateLiteTopic makes a lite topic. It succeeds if it exists already.
     * Publishing and subscribing make it too.
     * </pre>
     */
    public io.ackmesh.v1.CreateLiteTopicResponse createLiteTopic(io.ackmesh.v1.CreateLiteTopicRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateLiteTopicMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PublishLite appends events to a lite topic; durable when answered.
     * </pre>
     */
    public io.ackmesh.v1.PublishLiteResponse publishLite(io.ackmesh.v1.PublishLiteRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPublishLiteMethod(), getCallOptions(), request);
    }
  }

  /**
   * <pre>
   * Lite serves lite topics: many small, ordered, short-lived topics below one
   * parent. Backends without them answer UNIMPLEMENTED. What a caller may do with a
   * lite topic is what it may do with the parent.
   * </pre>
   */
  public static final class LiteFutureStub extends io.grpc.stub.AbstractFutureStub<LiteFutureStub> {
    private LiteFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LiteFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LiteFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * CreateLiteTopic makes a lite topic. It succeeds if it exists already.
     * Publishing and subscribing make it too.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.CreateLiteTopicResponse> createLiteTopic(
        io.ackmesh.v1.CreateLiteTopicRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateLiteTopicMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * PublishLite appends events to a lite topic; durable when answered.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.PublishLiteResponse> publishLite(
        io.ackmesh.v1.PublishLiteRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPublishLiteMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_LITE_TOPIC = 0;
  private static final int METHODID_PUBLISH_LITE = 1;
  private static final int METHODID_SUBSCRIBE_LITE = 2;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final LiteImplBase serviceImpl;
    private final int methodId;

    MethodHandlers(LiteImplBase serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_CREATE_LITE_TOPIC:
          serviceImpl.createLiteTopic((io.ackmesh.v1.CreateLiteTopicRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.CreateLiteTopicResponse>) responseObserver);
          break;
        case METHODID_PUBLISH_LITE:
          serviceImpl.publishLite((io.ackmesh.v1.PublishLiteRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.PublishLiteResponse>) responseObserver);
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
        case METHODID_SUBSCRIBE_LITE:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.subscribeLite(
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.SubscribeLiteResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  private static abstract class LiteBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    LiteBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.ackmesh.v1.LiteProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("Lite");
    }
  }

  private static final class LiteFileDescriptorSupplier
      extends LiteBaseDescriptorSupplier {
    LiteFileDescriptorSupplier() {}
  }

  private static final class LiteMethodDescriptorSupplier
      extends LiteBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final String methodName;

    LiteMethodDescriptorSupplier(String methodName) {
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
      synchronized (LiteGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new LiteFileDescriptorSupplier())
              .addMethod(getCreateLiteTopicMethod())
              .addMethod(getPublishLiteMethod())
              .addMethod(getSubscribeLiteMethod())
              .build();
        }
      }
    }
    return result;
  }
}
