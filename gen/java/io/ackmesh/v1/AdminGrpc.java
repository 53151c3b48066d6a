package io.ackmesh.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Admin is the operators' service. It has a listener of its own. Reads never
 * change anything.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class AdminGrpc {

  private AdminGrpc() {}

  public static final String SERVICE_NAME = "ackmesh.v1.Admin";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.ListTopicsRequest,
      io.ackmesh.v1.ListTopicsResponse> getListTopicsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTopics",
      requestType = io.ackmesh.v1.ListTopicsRequest.class,
      responseType = io.ackmesh.v1.ListTopicsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.ListTopicsRequest,
      io.ackmesh.v1.ListTopicsResponse> getListTopicsMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.ListTopicsRequest, io.ackmesh.v1.ListTopicsResponse> getListTopicsMethod;
    if ((getListTopicsMethod = AdminGrpc.getListTopicsMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getListTopicsMethod = AdminGrpc.getListTopicsMethod) == null) {
          AdminGrpc.getListTopicsMethod = getListTopicsMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.ListTopicsRequest, io.ackmesh.v1.ListTopicsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTopics"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListTopicsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListTopicsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("ListTopics"))
              .build();
        }
      }
    }
    return getListTopicsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.CreateTopicRequest,
      io.ackmesh.v1.CreateTopicResponse> getCreateTopicMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateTopic",
      requestType = io.ackmesh.v1.CreateTopicRequest.class,
      responseType = io.ackmesh.v1.CreateTopicResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.CreateTopicRequest,
      io.ackmesh.v1.CreateTopicResponse> getCreateTopicMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.CreateTopicRequest, io.ackmesh.v1.CreateTopicResponse> getCreateTopicMethod;
    if ((getCreateTopicMethod = AdminGrpc.getCreateTopicMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getCreateTopicMethod = AdminGrpc.getCreateTopicMethod) == null) {
          AdminGrpc.getCreateTopicMethod = getCreateTopicMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.CreateTopicRequest, io.ackmesh.v1.CreateTopicResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateTopic"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.CreateTopicRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.CreateTopicResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("CreateTopic"))
              .build();
        }
      }
    }
    return getCreateTopicMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.DeleteTopicRequest,
      io.ackmesh.v1.DeleteTopicResponse> getDeleteTopicMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteTopic",
      requestType = io.ackmesh.v1.DeleteTopicRequest.class,
      responseType = io.ackmesh.v1.DeleteTopicResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.DeleteTopicRequest,
      io.ackmesh.v1.DeleteTopicResponse> getDeleteTopicMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.DeleteTopicRequest, io.ackmesh.v1.DeleteTopicResponse> getDeleteTopicMethod;
    if ((getDeleteTopicMethod = AdminGrpc.getDeleteTopicMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getDeleteTopicMethod = AdminGrpc.getDeleteTopicMethod) == null) {
          AdminGrpc.getDeleteTopicMethod = getDeleteTopicMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.DeleteTopicRequest, io.ackmesh.v1.DeleteTopicResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteTopic"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.DeleteTopicRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.DeleteTopicResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("DeleteTopic"))
              .build();
        }
      }
    }
    return getDeleteTopicMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.ListSubscribersRequest,
      io.ackmesh.v1.ListSubscribersResponse> getListSubscribersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSubscribers",
      requestType = io.ackmesh.v1.ListSubscribersRequest.class,
      responseType = io.ackmesh.v1.ListSubscribersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.ListSubscribersRequest,
      io.ackmesh.v1.ListSubscribersResponse> getListSubscribersMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.ListSubscribersRequest, io.ackmesh.v1.ListSubscribersResponse> getListSubscribersMethod;
    if ((getListSubscribersMethod = AdminGrpc.getListSubscribersMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getListSubscribersMethod = AdminGrpc.getListSubscribersMethod) == null) {
          AdminGrpc.getListSubscribersMethod = getListSubscribersMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.ListSubscribersRequest, io.ackmesh.v1.ListSubscribersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSubscribers"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListSubscribersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListSubscribersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("ListSubscribers"))
              .build();
        }
      }
    }
    return getListSubscribersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.DeleteSubscriberRequest,
      io.ackmesh.v1.DeleteSubscriberResponse> getDeleteSubscriberMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteSubscriber",
      requestType = io.ackmesh.v1.DeleteSubscriberRequest.class,
      responseType = io.ackmesh.v1.DeleteSubscriberResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.DeleteSubscriberRequest,
      io.ackmesh.v1.DeleteSubscriberResponse> getDeleteSubscriberMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.DeleteSubscriberRequest, io.ackmesh.v1.DeleteSubscriberResponse> getDeleteSubscriberMethod;
    if ((getDeleteSubscriberMethod = AdminGrpc.getDeleteSubscriberMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getDeleteSubscriberMethod = AdminGrpc.getDeleteSubscriberMethod) == null) {
          AdminGrpc.getDeleteSubscriberMethod = getDeleteSubscriberMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.DeleteSubscriberRequest, io.ackmesh.v1.DeleteSubscriberResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteSubscriber"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.DeleteSubscriberRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.DeleteSubscriberResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("DeleteSubscriber"))
              .build();
        }
      }
    }
    return getDeleteSubscriberMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.ListClientsRequest,
      io.ackmesh.v1.ListClientsResponse> getListClientsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListClients",
      requestType = io.ackmesh.v1.ListClientsRequest.class,
      responseType = io.ackmesh.v1.ListClientsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.ListClientsRequest,
      io.ackmesh.v1.ListClientsResponse> getListClientsMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.ListClientsRequest, io.ackmesh.v1.ListClientsResponse> getListClientsMethod;
    if ((getListClientsMethod = AdminGrpc.getListClientsMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getListClientsMethod = AdminGrpc.getListClientsMethod) == null) {
          AdminGrpc.getListClientsMethod = getListClientsMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.ListClientsRequest, io.ackmesh.v1.ListClientsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListClients"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListClientsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListClientsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("ListClients"))
              .build();
        }
      }
    }
    return getListClientsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.EvictClientRequest,
      io.ackmesh.v1.EvictClientResponse> getEvictClientMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "EvictClient",
      requestType = io.ackmesh.v1.EvictClientRequest.class,
      responseType = io.ackmesh.v1.EvictClientResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.EvictClientRequest,
      io.ackmesh.v1.EvictClientResponse> getEvictClientMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.EvictClientRequest, io.ackmesh.v1.EvictClientResponse> getEvictClientMethod;
    if ((getEvictClientMethod = AdminGrpc.getEvictClientMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getEvictClientMethod = AdminGrpc.getEvictClientMethod) == null) {
          AdminGrpc.getEvictClientMethod = getEvictClientMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.EvictClientRequest, io.ackmesh.v1.EvictClientResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "EvictClient"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.EvictClientRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.EvictClientResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("EvictClient"))
              .build();
        }
      }
    }
    return getEvictClientMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.GetOffsetsRequest,
      io.ackmesh.v1.GetOffsetsResponse> getGetOffsetsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetOffsets",
      requestType = io.ackmesh.v1.GetOffsetsRequest.class,
      responseType = io.ackmesh.v1.GetOffsetsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.GetOffsetsRequest,
      io.ackmesh.v1.GetOffsetsResponse> getGetOffsetsMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.GetOffsetsRequest, io.ackmesh.v1.GetOffsetsResponse> getGetOffsetsMethod;
    if ((getGetOffsetsMethod = AdminGrpc.getGetOffsetsMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getGetOffsetsMethod = AdminGrpc.getGetOffsetsMethod) == null) {
          AdminGrpc.getGetOffsetsMethod = getGetOffsetsMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.GetOffsetsRequest, io.ackmesh.v1.GetOffsetsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetOffsets"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.GetOffsetsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.GetOffsetsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("GetOffsets"))
              .build();
        }
      }
    }
    return getGetOffsetsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.ResetOffsetRequest,
      io.ackmesh.v1.ResetOffsetResponse> getResetOffsetMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResetOffset",
      requestType = io.ackmesh.v1.ResetOffsetRequest.class,
      responseType = io.ackmesh.v1.ResetOffsetResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.ResetOffsetRequest,
      io.ackmesh.v1.ResetOffsetResponse> getResetOffsetMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.ResetOffsetRequest, io.ackmesh.v1.ResetOffsetResponse> getResetOffsetMethod;
    if ((getResetOffsetMethod = AdminGrpc.getResetOffsetMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getResetOffsetMethod = AdminGrpc.getResetOffsetMethod) == null) {
          AdminGrpc.getResetOffsetMethod = getResetOffsetMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.ResetOffsetRequest, io.ackmesh.v1.ResetOffsetResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResetOffset"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ResetOffsetRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ResetOffsetResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("ResetOffset"))
              .build();
        }
      }
    }
    return getResetOffsetMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.ListDeadLettersRequest,
      io.ackmesh.v1.ListDeadLettersResponse> getListDeadLettersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListDeadLetters",
      requestType = io.ackmesh.v1.ListDeadLettersRequest.class,
      responseType = io.ackmesh.v1.ListDeadLettersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.ListDeadLettersRequest,
      io.ackmesh.v1.ListDeadLettersResponse> getListDeadLettersMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.ListDeadLettersRequest, io.ackmesh.v1.ListDeadLettersResponse> getListDeadLettersMethod;
    if ((getListDeadLettersMethod = AdminGrpc.getListDeadLettersMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getListDeadLettersMethod = AdminGrpc.getListDeadLettersMethod) == null) {
          AdminGrpc.getListDeadLettersMethod = getListDeadLettersMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.ListDeadLettersRequest, io.ackmesh.v1.ListDeadLettersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListDeadLetters"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListDeadLettersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListDeadLettersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("ListDeadLetters"))
              .build();
        }
      }
    }
    return getListDeadLettersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.ReplayDeadLettersRequest,
      io.ackmesh.v1.ReplayDeadLettersResponse> getReplayDeadLettersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReplayDeadLetters",
      requestType = io.ackmesh.v1.ReplayDeadLettersRequest.class,
      responseType = io.ackmesh.v1.ReplayDeadLettersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.ReplayDeadLettersRequest,
      io.ackmesh.v1.ReplayDeadLettersResponse> getReplayDeadLettersMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.ReplayDeadLettersRequest, io.ackmesh.v1.ReplayDeadLettersResponse> getReplayDeadLettersMethod;
    if ((getReplayDeadLettersMethod = AdminGrpc.getReplayDeadLettersMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getReplayDeadLettersMethod = AdminGrpc.getReplayDeadLettersMethod) == null) {
          AdminGrpc.getReplayDeadLettersMethod = getReplayDeadLettersMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.ReplayDeadLettersRequest, io.ackmesh.v1.ReplayDeadLettersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReplayDeadLetters"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ReplayDeadLettersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ReplayDeadLettersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("ReplayDeadLetters"))
              .build();
        }
      }
    }
    return getReplayDeadLettersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.PurgeDeadLettersRequest,
      io.ackmesh.v1.PurgeDeadLettersResponse> getPurgeDeadLettersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PurgeDeadLetters",
      requestType = io.ackmesh.v1.PurgeDeadLettersRequest.class,
      responseType = io.ackmesh.v1.PurgeDeadLettersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.PurgeDeadLettersRequest,
      io.ackmesh.v1.PurgeDeadLettersResponse> getPurgeDeadLettersMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.PurgeDeadLettersRequest, io.ackmesh.v1.PurgeDeadLettersResponse> getPurgeDeadLettersMethod;
    if ((getPurgeDeadLettersMethod = AdminGrpc.getPurgeDeadLettersMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getPurgeDeadLettersMethod = AdminGrpc.getPurgeDeadLettersMethod) == null) {
          AdminGrpc.getPurgeDeadLettersMethod = getPurgeDeadLettersMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.PurgeDeadLettersRequest, io.ackmesh.v1.PurgeDeadLettersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PurgeDeadLetters"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PurgeDeadLettersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.PurgeDeadLettersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("PurgeDeadLetters"))
              .build();
        }
      }
    }
    return getPurgeDeadLettersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.RebuildDeadLettersRequest,
      io.ackmesh.v1.RebuildDeadLettersResponse> getRebuildDeadLettersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RebuildDeadLetters",
      requestType = io.ackmesh.v1.RebuildDeadLettersRequest.class,
      responseType = io.ackmesh.v1.RebuildDeadLettersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.RebuildDeadLettersRequest,
      io.ackmesh.v1.RebuildDeadLettersResponse> getRebuildDeadLettersMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.RebuildDeadLettersRequest, io.ackmesh.v1.RebuildDeadLettersResponse> getRebuildDeadLettersMethod;
    if ((getRebuildDeadLettersMethod = AdminGrpc.getRebuildDeadLettersMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getRebuildDeadLettersMethod = AdminGrpc.getRebuildDeadLettersMethod) == null) {
          AdminGrpc.getRebuildDeadLettersMethod = getRebuildDeadLettersMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.RebuildDeadLettersRequest, io.ackmesh.v1.RebuildDeadLettersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RebuildDeadLetters"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.RebuildDeadLettersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.RebuildDeadLettersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("RebuildDeadLetters"))
              .build();
        }
      }
    }
    return getRebuildDeadLettersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.SetRateLimitRequest,
      io.ackmesh.v1.SetRateLimitResponse> getSetRateLimitMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SetRateLimit",
      requestType = io.ackmesh.v1.SetRateLimitRequest.class,
      responseType = io.ackmesh.v1.SetRateLimitResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.SetRateLimitRequest,
      io.ackmesh.v1.SetRateLimitResponse> getSetRateLimitMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.SetRateLimitRequest, io.ackmesh.v1.SetRateLimitResponse> getSetRateLimitMethod;
    if ((getSetRateLimitMethod = AdminGrpc.getSetRateLimitMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getSetRateLimitMethod = AdminGrpc.getSetRateLimitMethod) == null) {
          AdminGrpc.getSetRateLimitMethod = getSetRateLimitMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.SetRateLimitRequest, io.ackmesh.v1.SetRateLimitResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SetRateLimit"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.SetRateLimitRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.SetRateLimitResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("SetRateLimit"))
              .build();
        }
      }
    }
    return getSetRateLimitMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.ListRateLimitsRequest,
      io.ackmesh.v1.ListRateLimitsResponse> getListRateLimitsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListRateLimits",
      requestType = io.ackmesh.v1.ListRateLimitsRequest.class,
      responseType = io.ackmesh.v1.ListRateLimitsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.ListRateLimitsRequest,
      io.ackmesh.v1.ListRateLimitsResponse> getListRateLimitsMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.ListRateLimitsRequest, io.ackmesh.v1.ListRateLimitsResponse> getListRateLimitsMethod;
    if ((getListRateLimitsMethod = AdminGrpc.getListRateLimitsMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getListRateLimitsMethod = AdminGrpc.getListRateLimitsMethod) == null) {
          AdminGrpc.getListRateLimitsMethod = getListRateLimitsMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.ListRateLimitsRequest, io.ackmesh.v1.ListRateLimitsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListRateLimits"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListRateLimitsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.ListRateLimitsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("ListRateLimits"))
              .build();
        }
      }
    }
    return getListRateLimitsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.ackmesh.v1.DrainRequest,
      io.ackmesh.v1.DrainResponse> getDrainMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Drain",
      requestType = io.ackmesh.v1.DrainRequest.class,
      responseType = io.ackmesh.v1.DrainResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.ackmesh.v1.DrainRequest,
      io.ackmesh.v1.DrainResponse> getDrainMethod() {
    io.grpc.MethodDescriptor<io.ackmesh.v1.DrainRequest, io.ackmesh.v1.DrainResponse> getDrainMethod;
    if ((getDrainMethod = AdminGrpc.getDrainMethod) == null) {
      synchronized (AdminGrpc.class) {
        if ((getDrainMethod = AdminGrpc.getDrainMethod) == null) {
          AdminGrpc.getDrainMethod = getDrainMethod =
              io.grpc.MethodDescriptor.<io.ackmesh.v1.DrainRequest, io.ackmesh.v1.DrainResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Drain"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.DrainRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.ackmesh.v1.DrainResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminMethodDescriptorSupplier("Drain"))
              .build();
        }
      }
    }
    return getDrainMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static AdminStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminStub>() {
        @java.lang.Override
        public AdminStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminStub(channel, callOptions);
        }
      };
    return AdminStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static AdminBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminBlockingStub>() {
        @java.lang.Override
        public AdminBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminBlockingStub(channel, callOptions);
        }
      };
    return AdminBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static AdminFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminFutureStub>() {
        @java.lang.Override
        public AdminFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminFutureStub(channel, callOptions);
        }
      };
    return AdminFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Admin is the operators' service. It has a listener of its own. Reads never
   * change anything.
   * </pre>
   */
  public static abstract class AdminImplBase implements io.grpc.BindableService {

    /**
     * <pre>
     * ListTopics lists topics and their partitions. What the log cannot tell of a
     * partition does not cost the list: see Partition.bounds.
     * </pre>
     */
    public void listTopics(io.ackmesh.v1.ListTopicsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListTopicsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTopicsMethod(), responseObserver);
    }

    /**
     * <pre>
     * CreateTopic makes a topic; ALREADY_EXISTS if there is one.
     * </pre>
     */
    public void createTopic(io.ackmesh.v1.CreateTopicRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.CreateTopicResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateTopicMethod(), responseObserver);
    }

    /**
     * <pre>
     * DeleteTopic removes a topic, its records and all positions on it.
     * </pre>
     */
    public void deleteTopic(io.ackmesh.v1.DeleteTopicRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.DeleteTopicResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteTopicMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListSubscribers lists who has progress on a topic.
     * </pre>
     */
    public void listSubscribers(io.ackmesh.v1.ListSubscribersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListSubscribersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSubscribersMethod(), responseObserver);
    }

    /**
     * <pre>
     * DeleteSubscriber removes a subscriber's progress. It must have no stream.
     * </pre>
     */
    public void deleteSubscriber(io.ackmesh.v1.DeleteSubscriberRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.DeleteSubscriberResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteSubscriberMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListClients lists live streams.
     * </pre>
     */
    public void listClients(io.ackmesh.v1.ListClientsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListClientsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListClientsMethod(), responseObserver);
    }

    /**
     * <pre>
     * EvictClient ends the streams of a client with Notice EVICTED.
     * </pre>
     */
    public void evictClient(io.ackmesh.v1.EvictClientRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.EvictClientResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getEvictClientMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetOffsets shows bounds, positions and lag. What the log cannot tell of a
     * partition does not cost the rest: see PartitionOffsets.bounds.
     * </pre>
     */
    public void getOffsets(io.ackmesh.v1.GetOffsetsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.GetOffsetsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetOffsetsMethod(), responseObserver);
    }

    /**
     * <pre>
     * ResetOffset moves a subscriber's position on purpose.
     * </pre>
     */
    public void resetOffset(io.ackmesh.v1.ResetOffsetRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ResetOffsetResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResetOffsetMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListDeadLetters browses dead letters. It changes nothing.
     * </pre>
     */
    public void listDeadLetters(io.ackmesh.v1.ListDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListDeadLettersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListDeadLettersMethod(), responseObserver);
    }

    /**
     * <pre>
     * ReplayDeadLetters publishes dead letters again, addressed to the
     * subscriber that failed.
     * </pre>
     */
    public void replayDeadLetters(io.ackmesh.v1.ReplayDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ReplayDeadLettersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReplayDeadLettersMethod(), responseObserver);
    }

    /**
     * <pre>
     * PurgeDeadLetters forgets dead letters.
     * </pre>
     */
    public void purgeDeadLetters(io.ackmesh.v1.PurgeDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PurgeDeadLettersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPurgeDeadLettersMethod(), responseObserver);
    }

    /**
     * <pre>
     * RebuildDeadLetters reads the topic of dead letters and adds to the ledger
     * what it lacks: after the data directory was lost, or on another instance.
     * </pre>
     */
    public void rebuildDeadLetters(io.ackmesh.v1.RebuildDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.RebuildDeadLettersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRebuildDeadLettersMethod(), responseObserver);
    }

    /**
     * <pre>
     * SetRateLimit bounds the rate of publishing or delivering on this instance.
     * It is kept over restarts.
     * </pre>
     */
    public void setRateLimit(io.ackmesh.v1.SetRateLimitRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.SetRateLimitResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSetRateLimitMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListRateLimits lists what SetRateLimit has set.
     * </pre>
     */
    public void listRateLimits(io.ackmesh.v1.ListRateLimitsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListRateLimitsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListRateLimitsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Drain makes the instance stop taking streams and send its clients on, or
     * take them again. It answers once the clients are told.
     * </pre>
     */
    public void drain(io.ackmesh.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDrainMethod(), responseObserver);
    }

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
          .addMethod(
            getListTopicsMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.ListTopicsRequest,
                io.ackmesh.v1.ListTopicsResponse>(
                  this, METHODID_LIST_TOPICS)))
          .addMethod(
            getCreateTopicMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.CreateTopicRequest,
                io.ackmesh.v1.CreateTopicResponse>(
                  this, METHODID_CREATE_TOPIC)))
          .addMethod(
            getDeleteTopicMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.DeleteTopicRequest,
                io.ackmesh.v1.DeleteTopicResponse>(
                  this, METHODID_DELETE_TOPIC)))
          .addMethod(
            getListSubscribersMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.ListSubscribersRequest,
                io.ackmesh.v1.ListSubscribersResponse>(
                  this, METHODID_LIST_SUBSCRIBERS)))
          .addMethod(
            getDeleteSubscriberMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.DeleteSubscriberRequest,
                io.ackmesh.v1.DeleteSubscriberResponse>(
                  this, METHODID_DELETE_SUBSCRIBER)))
          .addMethod(
            getListClientsMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.ListClientsRequest,
                io.ackmesh.v1.ListClientsResponse>(
                  this, METHODID_LIST_CLIENTS)))
          .addMethod(
            getEvictClientMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.EvictClientRequest,
                io.ackmesh.v1.EvictClientResponse>(
                  this, METHODID_EVICT_CLIENT)))
          .addMethod(
            getGetOffsetsMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.GetOffsetsRequest,
                io.ackmesh.v1.GetOffsetsResponse>(
                  this, METHODID_GET_OFFSETS)))
          .addMethod(
            getResetOffsetMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.ResetOffsetRequest,
                io.ackmesh.v1.ResetOffsetResponse>(
                  this, METHODID_RESET_OFFSET)))
          .addMethod(
            getListDeadLettersMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.ListDeadLettersRequest,
                io.ackmesh.v1.ListDeadLettersResponse>(
                  this, METHODID_LIST_DEAD_LETTERS)))
          .addMethod(
            getReplayDeadLettersMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.ReplayDeadLettersRequest,
                io.ackmesh.v1.ReplayDeadLettersResponse>(
                  this, METHODID_REPLAY_DEAD_LETTERS)))
          .addMethod(
            getPurgeDeadLettersMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.PurgeDeadLettersRequest,
                io.ackmesh.v1.PurgeDeadLettersResponse>(
                  this, METHODID_PURGE_DEAD_LETTERS)))
          .addMethod(
            getRebuildDeadLettersMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.RebuildDeadLettersRequest,
                io.ackmesh.v1.RebuildDeadLettersResponse>(
                  this, METHODID_REBUILD_DEAD_LETTERS)))
          .addMethod(
            getSetRateLimitMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.SetRateLimitRequest,
                io.ackmesh.v1.SetRateLimitResponse>(
                  this, METHODID_SET_RATE_LIMIT)))
          .addMethod(
            getListRateLimitsMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.ListRateLimitsRequest,
                io.ackmesh.v1.ListRateLimitsResponse>(
                  this, METHODID_LIST_RATE_LIMITS)))
          .addMethod(
            getDrainMethod(),
            io.grpc.stub.ServerCalls.asyncUnaryCall(
              new MethodHandlers<
                io.ackmesh.v1.DrainRequest,
                io.ackmesh.v1.DrainResponse>(
                  this, METHODID_DRAIN)))
          .build();
    }
  }

  /**
   * <pre>
   * Admin is the operators' service. It has a listener of its own. Reads never
   * change anything.
   * </pre>
   */
  public static final class AdminStub extends io.grpc.stub.AbstractAsyncStub<AdminStub> {
    private AdminStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListTopics lists topics and their partitions. What the log cannot tell of a
     * partition does not cost the list: see Partition.bounds.
     * </pre>
     */
    public void listTopics(io.ackmesh.v1.ListTopicsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListTopicsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTopicsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CreateTopic makes a topic; ALREADY_EXISTS if there is one.
     * </pre>
     */
    public void createTopic(io.ackmesh.v1.CreateTopicRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.CreateTopicResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateTopicMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DeleteTopic removes a topic, its records and all positions on it.
     * </pre>
     */
    public void deleteTopic(io.ackmesh.v1.DeleteTopicRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.DeleteTopicResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteTopicMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListSubscribers lists who has progress on a topic.
     * </pre>
     */
    public void listSubscribers(io.ackmesh.v1.ListSubscribersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListSubscribersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSubscribersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DeleteSubscriber removes a subscriber's progress. It must have no stream.
     * </pre>
     */
    public void deleteSubscriber(io.ackmesh.v1.DeleteSubscriberRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.DeleteSubscriberResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteSubscriberMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListClients lists live streams.
     * </pre>
     */
    public void listClients(io.ackmesh.v1.ListClientsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListClientsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListClientsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * EvictClient ends the streams of a client with Notice EVICTED.
     * </pre>
     */
    public void evictClient(io.ackmesh.v1.EvictClientRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.EvictClientResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getEvictClientMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetOffsets shows bounds, positions and lag. What the log cannot tell of a
     * partition does not cost the rest: see PartitionOffsets.bounds.
     * </pre>
     */
    public void getOffsets(io.ackmesh.v1.GetOffsetsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.GetOffsetsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetOffsetsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ResetOffset moves a subscriber's position on purpose.
     * </pre>
     */
    public void resetOffset(io.ackmesh.v1.ResetOffsetRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ResetOffsetResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResetOffsetMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListDeadLetters browses dead letters. It changes nothing.
     * </pre>
     */
    public void listDeadLetters(io.ackmesh.v1.ListDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListDeadLettersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListDeadLettersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ReplayDeadLetters publishes dead letters again, addressed to the
     * subscriber that failed.
     * </pre>
     */
    public void replayDeadLetters(io.ackmesh.v1.ReplayDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ReplayDeadLettersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReplayDeadLettersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * PurgeDeadLetters forgets dead letters.
     * </pre>
     */
    public void purgeDeadLetters(io.ackmesh.v1.PurgeDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.PurgeDeadLettersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPurgeDeadLettersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * RebuildDeadLetters reads the topic of dead letters and adds to the ledger
     * what it lacks: after the data directory was lost, or on another instance.
     * </pre>
     */
    public void rebuildDeadLetters(io.ackmesh.v1.RebuildDeadLettersRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.RebuildDeadLettersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRebuildDeadLettersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * SetRateLimit bounds the rate of publishing or delivering on this instance.
     * It is kept over restarts.
     * </pre>
     */
    public void setRateLimit(io.ackmesh.v1.SetRateLimitRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.SetRateLimitResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSetRateLimitMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListRateLimits lists what SetRateLimit has set.
     * </pre>
     */
    public void listRateLimits(io.ackmesh.v1.ListRateLimitsRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.ListRateLimitsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListRateLimitsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Drain makes the instance stop taking streams and send its clients on, or
     * take them again. It answers once the clients are told.
     * </pre>
     */
    public void drain(io.ackmesh.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.ackmesh.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * <pre>
   * Admin is the operators' service. It has a listener of its own. Reads never
   * change anything.
   * </pre>
   */
  public static final class AdminBlockingStub extends io.grpc.stub.AbstractBlockingStub<AdminBlockingStub> {
    private AdminBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListTopics lists topics and their partitions. What the log cannot tell of a
     * partition does not cost the list: see Partition.bounds.
     * </pre>
     */
    public io.ackmesh.v1.ListTopicsResponse listTopics(io.ackmesh.v1.ListTopicsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTopicsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CreateTopic makes a topic; ALREADY_EXISTS if there is one.
     * </pre>
     */
    public io.ackmesh.v1.CreateTopicResponse createTopic(io.ackmesh.v1.CreateTopicRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateTopicMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeleteTopic removes a topic, its records and all positions on it.
     * </pre>
     */
    public io.ackmesh.v1.DeleteTopicResponse deleteTopic(io.ackmesh.v1.DeleteTopicRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteTopicMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListSubscribers lists who has progress on a topic.
     * </pre>
     */
    public io.ackmesh.v1.ListSubscribersResponse listSubscribers(io.ackmesh.v1.ListSubscribersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSubscribersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeleteSubscriber removes a subscriber's progress. It must have no stream.
     * </pre>
     */
    public io.ackmesh.v1.DeleteSubscriberResponse deleteSubscriber(io.ackmesh.v1.DeleteSubscriberRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteSubscriberMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListClients lists live streams.
     * </pre>
     */
    public io.ackmesh.v1.ListClientsResponse listClients(io.ackmesh.v1.ListClientsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListClientsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * EvictClient ends the streams of a client with Notice EVICTED.
     * </pre>
     */
    public io.ackmesh.v1.EvictClientResponse evictClient(io.ackmesh.v1.EvictClientRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getEvictClientMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetOffsets shows bounds, positions and lag. What the log cannot tell of a
     * partition does not cost the rest: see PartitionOffsets.bounds.
     * </pre>
     */
    public io.ackmesh.v1.GetOffsetsResponse getOffsets(io.ackmesh.v1.GetOffsetsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetOffsetsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ResetOffset moves a subscriber's position on purpose.
     * </pre>
     */
    public io.ackmesh.v1.ResetOffsetResponse resetOffset(io.ackmesh.v1.ResetOffsetRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResetOffsetMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListDeadLetters browses dead letters. It changes nothing.
     * </pre>
     */
    public io.ackmesh.v1.ListDeadLettersResponse listDeadLetters(io.ackmesh.v1.ListDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListDeadLettersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ReplayDeadLetters publishes dead letters again, addressed to the
     * subscriber that failed.
     * </pre>
     */
    public io.ackmesh.v1.ReplayDeadLettersResponse replayDeadLetters(io.ackmesh.v1.ReplayDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReplayDeadLettersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * PurgeDeadLetters forgets dead letters.
     * </pre>
     */
    public io.ackmesh.v1.PurgeDeadLettersResponse purgeDeadLetters(io.ackmesh.v1.PurgeDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPurgeDeadLettersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * RebuildDeadLetters reads the topic of dead letters and adds to the ledger
     * what it lacks: after the data directory was lost, or on another instance.
     * </pre>
     */
    public io.ackmesh.v1.RebuildDeadLettersResponse rebuildDeadLetters(io.ackmesh.v1.RebuildDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRebuildDeadLettersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * SetRateLimit bounds the rate of publishing or delivering on this instance.
     * It is kept over restarts.
     * </pre>
     */
    public io.ackmesh.v1.SetRateLimitResponse setRateLimit(io.ackmesh.v1.SetRateLimitRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSetRateLimitMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListRateLimits lists what SetRateLimit has set.
     * </pre>
     */
    public io.ackmesh.v1.ListRateLimitsResponse listRateLimits(io.ackmesh.v1.ListRateLimitsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListRateLimitsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drain makes the instance stop taking streams and send its clients on, or
     * take them again. It answers once the clients are told.
     * </pre>
     */
    public io.ackmesh.v1.DrainResponse drain(io.ackmesh.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDrainMethod(), getCallOptions(), request);
    }
  }

  /**
   * <pre>
   * Admin is the operators' service. It has a listener of its own. Reads never
   * change anything.
   * </pre>
   */
  public static final class AdminFutureStub extends io.grpc.stub.AbstractFutureStub<AdminFutureStub> {
    private AdminFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListTopics lists topics and their partitions. What the log cannot tell of a
     * partition does not cost the list: see Partition.bounds.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.ListTopicsResponse> listTopics(
        io.ackmesh.v1.ListTopicsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTopicsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CreateTopic makes a topic; ALREADY_EXISTS if there is one.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.CreateTopicResponse> createTopic(
        io.ackmesh.v1.CreateTopicRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateTopicMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DeleteTopic removes a topic, its records and all positions on it.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.DeleteTopicResponse> deleteTopic(
        io.ackmesh.v1.DeleteTopicRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteTopicMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListSubscribers lists who has progress on a topic.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.ListSubscribersResponse> listSubscribers(
        io.ackmesh.v1.ListSubscribersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSubscribersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DeleteSubscriber removes a subscriber's progress. It must have no stream.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.DeleteSubscriberResponse> deleteSubscriber(
        io.ackmesh.v1.DeleteSubscriberRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteSubscriberMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListClients lists live streams.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.ListClientsResponse> listClients(
        io.ackmesh.v1.ListClientsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListClientsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * EvictClient ends the streams of a client with Notice EVICTED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.EvictClientResponse> evictClient(
        io.ackmesh.v1.EvictClientRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getEvictClientMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetOffsets shows bounds, positions and lag. What the log cannot tell of a
     * partition does not cost the rest: see PartitionOffsets.bounds.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.GetOffsetsResponse> getOffsets(
        io.ackmesh.v1.GetOffsetsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetOffsetsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ResetOffset moves a subscriber's position on purpose.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.ResetOffsetResponse> resetOffset(
        io.ackmesh.v1.ResetOffsetRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResetOffsetMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListDeadLetters browses dead letters. It changes nothing.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.ListDeadLettersResponse> listDeadLetters(
        io.ackmesh.v1.ListDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListDeadLettersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ReplayDeadLetters publishes dead letters again, addressed to the
     * subscriber that failed.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.ReplayDeadLettersResponse> replayDeadLetters(
        io.ackmesh.v1.ReplayDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReplayDeadLettersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * PurgeDeadLetters forgets dead letters.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.PurgeDeadLettersResponse> purgeDeadLetters(
        io.ackmesh.v1.PurgeDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPurgeDeadLettersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * RebuildDeadLetters reads the topic of dead letters and adds to the ledger
     * what it lacks: after the data directory was lost, or on another instance.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.RebuildDeadLettersResponse> rebuildDeadLetters(
        io.ackmesh.v1.RebuildDeadLettersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRebuildDeadLettersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * SetRateLimit bounds the rate of publishing or delivering on this instance.
     * It is kept over restarts.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.SetRateLimitResponse> setRateLimit(
        io.ackmesh.v1.SetRateLimitRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSetRateLimitMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListRateLimits lists what SetRateLimit has set.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.ListRateLimitsResponse> listRateLimits(
        io.ackmesh.v1.ListRateLimitsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListRateLimitsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Drain makes the instance stop taking streams and send its clients on, or
     * take them again. It answers once the clients are told.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.ackmesh.v1.DrainResponse> drain(
        io.ackmesh.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_TOPICS = 0;
  private static final int METHODID_CREATE_TOPIC = 1;
  private static final int METHODID_DELETE_TOPIC = 2;
  private static final int METHODID_LIST_SUBSCRIBERS = 3;
  private static final int METHODID_DELETE_SUBSCRIBER = 4;
  private static final int METHODID_LIST_CLIENTS = 5;
  private static final int METHODID_EVICT_CLIENT = 6;
  private static final int METHODID_GET_OFFSETS = 7;
  private static final int METHODID_RESET_OFFSET = 8;
  private static final int METHODID_LIST_DEAD_LETTERS = 9;
  private static final int METHODID_REPLAY_DEAD_LETTERS = 10;
  private static final int METHODID_PURGE_DEAD_LETTERS = 11;
  private static final int METHODID_REBUILD_DEAD_LETTERS = 12;
  private static final int METHODID_SET_RATE_LIMIT = 13;
  private static final int METHODID_LIST_RATE_LIMITS = 14;
  private static final int METHODID_DRAIN = 15;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AdminImplBase serviceImpl;
    private final int methodId;

    MethodHandlers(AdminImplBase serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_LIST_TOPICS:
          serviceImpl.listTopics((io.ackmesh.v1.ListTopicsRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.ListTopicsResponse>) responseObserver);
          break;
        case METHODID_CREATE_TOPIC:
          serviceImpl.createTopic((io.ackmesh.v1.CreateTopicRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.CreateTopicResponse>) responseObserver);
          break;
        case METHODID_DELETE_TOPIC:
          serviceImpl.deleteTopic((io.ackmesh.v1.DeleteTopicRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.DeleteTopicResponse>) responseObserver);
          break;
        case METHODID_LIST_SUBSCRIBERS:
          serviceImpl.listSubscribers((io.ackmesh.v1.ListSubscribersRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.ListSubscribersResponse>) responseObserver);
          break;
        case METHODID_DELETE_SUBSCRIBER:
          serviceImpl.deleteSubscriber((io.ackmesh.v1.DeleteSubscriberRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.DeleteSubscriberResponse>) responseObserver);
          break;
        case METHODID_LIST_CLIENTS:
          serviceImpl.listClients((io.ackmesh.v1.ListClientsRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.ListClientsResponse>) responseObserver);
          break;
        case METHODID_EVICT_CLIENT:
          serviceImpl.evictClient((io.ackmesh.v1.EvictClientRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.EvictClientResponse>) responseObserver);
          break;
        case METHODID_GET_OFFSETS:
          serviceImpl.getOffsets((io.ackmesh.v1.GetOffsetsRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.GetOffsetsResponse>) responseObserver);
          break;
        case METHODID_RESET_OFFSET:
          serviceImpl.resetOffset((io.ackmesh.v1.ResetOffsetRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.ResetOffsetResponse>) responseObserver);
          break;
        case METHODID_LIST_DEAD_LETTERS:
          serviceImpl.listDeadLetters((io.ackmesh.v1.ListDeadLettersRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.ListDeadLettersResponse>) responseObserver);
          break;
        case METHODID_REPLAY_DEAD_LETTERS:
          serviceImpl.replayDeadLetters((io.ackmesh.v1.ReplayDeadLettersRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.ReplayDeadLettersResponse>) responseObserver);
          break;
        case METHODID_PURGE_DEAD_LETTERS:
          serviceImpl.purgeDeadLetters((io.ackmesh.v1.PurgeDeadLettersRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.PurgeDeadLettersResponse>) responseObserver);
          break;
        case METHODID_REBUILD_DEAD_LETTERS:
          serviceImpl.rebuildDeadLetters((io.ackmesh.v1.RebuildDeadLettersRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.RebuildDeadLettersResponse>) responseObserver);
          break;
        case METHODID_SET_RATE_LIMIT:
          serviceImpl.setRateLimit((io.ackmesh.v1.SetRateLimitRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.SetRateLimitResponse>) responseObserver);
          break;
        case METHODID_LIST_RATE_LIMITS:
          serviceImpl.listRateLimits((io.ackmesh.v1.ListRateLimitsRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.ListRateLimitsResponse>) responseObserver);
          break;
        case METHODID_DRAIN:
          serviceImpl.drain((io.ackmesh.v1.DrainRequest) request,
              (io.grpc.stub.StreamObserver<io.ackmesh.v1.DrainResponse>) responseObserver);
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

  private static abstract class AdminBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    AdminBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.ackmesh.v1.AdminProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("Admin");
    }
  }

  private static final class AdminFileDescriptorSupplier
      extends AdminBaseDescriptorSupplier {
    AdminFileDescriptorSupplier() {}
  }

  private static final class AdminMethodDescriptorSupplier
      extends AdminBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final String methodName;

    AdminMethodDescriptorSupplier(String methodName) {
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
      synchronized (AdminGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new AdminFileDescriptorSupplier())
              .addMethod(getListTopicsMethod())
              .addMethod(getCreateTopicMethod())
              .addMethod(getDeleteTopicMethod())
              .addMethod(getListSubscribersMethod())
              .addMethod(getDeleteSubscriberMethod())
              .addMethod(getListClientsMethod())
              .addMethod(getEvictClientMethod())
              .addMethod(getGetOffsetsMethod())
              .addMethod(getResetOffsetMethod())
              .addMethod(getListDeadLettersMethod())
              .addMethod(getReplayDeadLettersMethod())
              .addMethod(getPurgeDeadLettersMethod())
              .addMethod(getRebuildDeadLettersMethod())
              .addMethod(getSetRateLimitMethod())
              .addMethod(getListRateLimitsMethod())
              .addMethod(getDrainMethod())
              .build();
        }
      }
    }
    return result;
  }
}
