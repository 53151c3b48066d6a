package io.ackmesh.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Session tells clients where to connect. The same answer is given on the
 * literal gRPC path /session/recommend and on HTTP GET and POST
 * /session/recommend.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SessionGrpc {

  private SessionGrpc() {}

  public static final String SERVICE_NAME = "ackmesh.v1.Session";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.RecommendRequest,
      io.ackmesh.v1.RecommendResponse> getRecommendMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Recommend",
      requestType = io.ackmesh.v1.RecommendRequest.class,
      responseType = io.ackmesh.v1.RecommendResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.RecommendRequest,
      io.ackmesh.v1.RecommendResponse> getRecommendMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.RecommendRequest, io.ackmesh.v1.RecommendResponse> getRecommendMethod;
    if ((getRecommendMethod = SessionGrpc.getRecommendMethod) == null) {
      synchronized (SessionGrpc.class) {
        if ((getRecommendMethod = SessionGrpc.getRecommendMethod) == null) {
          SessionGrpc.getRecommendMethod = getRecommendMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.RecommendRequest, io.ackmesh.v1.RecommendResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Recommend"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.RecommendRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.RecommendResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionMethodDescriptorSupplier("Recommend"))
              .build();
        }
      }
    }
    return getRecommendMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SessionStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionStub>() {
        @java.lang.Override
        public SessionStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionStub(channel, callOptions);
        }
      };
    return SessionStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SessionBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionBlockingStub>() {
        @java.lang.Override
        public SessionBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionBlockingStub(channel, callOptions);
        }
      };
    return SessionBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SessionFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionFutureStub>() {
        @java.lang.Override
        public SessionFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionFutureStub(channel, callOptions);
        }
      };
    return SessionFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Session tells clients where to connect. The same answer is given on the
   * literal gRPC path /session/recommend and on HTTP GET and POST
   * /session/recommend.
   * </pre>
   */
  public static abstract class SessionImplBase implements io.grpc.BindableService {

    /**
     * <pre>
     * Recommend names the instance that a client should open its stream on.
     * </pre>
     */
    public void recommend(io.ackmesh.v1.RecommendRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.RecommendResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRecommendMethod(), responseObserver);
    }

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
          .addMethod(
            getRecommendMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.RecommendRequest,
                io.ackmesh.v1.RecommendResponse>(
                  this, METHODID_RECOMMEND)))
          .build();
    }
  }

  /**
   * <pre>
   * Session tells clients where to connect. The same answer is given on the
   * literal gRPC path /session/recommend and on HTTP GET and POST
   * /session/recommend.
   * </pre>
   */
  public static final class SessionStub extends io.grpc.stub.AbstractAsyncStub<SessionStub> {
    private SessionStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionStub(channel, callOptions);
    }

    /**
     * <pre>
     * Recommend names the instance that a client should open its stream on.
     * </pre>
     */
    public void recommend(io.ackmesh.v1.RecommendRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.RecommendResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRecommendMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * <pre>
   * Session tells clients where to connect. The same answer is given on the
   * literal gRPC path /session/recommend and on HTTP GET and POST
   * /session/recommend.
   * </pre>
   */
  public static final class SessionBlockingStub extends io.grpc.stub.AbstractBlockingStub<SessionBlockingStub> {
    private SessionBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Recommend names the instance that a client should open its stream on.
     * </pre>
     */
    public io.ackmesh.v1.RecommendResponse recommend(io.ackmesh.v1.RecommendRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRecommendMethod(), getCallOptions(), request);
    }
  }

  /**
   * <pre>
   * Session tells clients where to connect. The same answer is given on the
   * literal gRPC path /session/recommend and on HTTP GET and POST
   * /session/recommend.
   * </pre>
   */
  public static final class SessionFutureStub extends io.grpc.stub.AbstractFutureStub<SessionFutureStub> {
    private SessionFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Recommend names the instance that a client should open its stream on.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.RecommendResponse> recommend(
        io.ackmesh.v1.RecommendRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRecommendMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_RECOMMEND = 0;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final SessionImplBase serviceImpl;
    private final int methodId;

    MethodHandlers(SessionImplBase serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_RECOMMEND:
          serviceImpl.recommend((io.ackmesh.v1.RecommendRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.RecommendResponse>) responseObserver);
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
        default:
          throw new AssertionError();
      }
    }
  }

  private static abstract class SessionBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SessionBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.ackmesh.v1.SessionProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("Session");
    }
  }

  private static final class SessionFileDescriptorSupplier
      extends SessionBaseDescriptorSupplier {
    SessionFileDescriptorSupplier() {}
  }

  private static final class SessionMethodDescriptorSupplier
      extends SessionBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final String methodName;

    SessionMethodDescriptorSupplier(String methodName) {
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
      synchronized (SessionGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SessionFileDescriptorSupplier())
              .addMethod(getRecommendMethod())
              .build();
        }
      }
    }
    return result;
  }
}
