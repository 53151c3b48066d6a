"""The generated messages and stubs load and work with the installed runtime."""

from concurrent import futures

import grpc
from ackmesh.v1 import (
    admin_pb2_grpc,
    eventmesh_pb2,
    eventmesh_pb2_grpc,
    frame_pb2,
    lite_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
)


def test_message_survives_the_wire() -> None:
    frame = frame_pb2.EventMeshFrame(
        type=frame_pb2.MESSAGE_TYPE_EVENT, attributes={"id": "a"}, data=b"hi"
    )
    sent = eventmesh_pb2.PublishRequest(topic="orders", events=[frame])

    assert eventmesh_pb2.PublishRequest.FromString(sent.SerializeToString()) == sent


def test_every_service_has_a_stub() -> None:
    with grpc.insecure_channel("localhost:1") as channel:
        assert eventmesh_pb2_grpc.EventMeshStub(channel).Subscribe
        assert lite_pb2_grpc.LiteStub(channel).SubscribeLite
        assert admin_pb2_grpc.AdminStub(channel).Drain


class EchoSession(session_pb2_grpc.SessionServicer):
    """Names the client in the answer."""

    def Recommend(
        self, request: session_pb2.RecommendRequest, context: grpc.ServicerContext
    ) -> session_pb2.RecommendResponse:
        return session_pb2.RecommendResponse(instance_id=f"instance of {request.client_id}")


def test_stub_reaches_a_server() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    session_pb2_grpc.add_SessionServicer_to_server(EchoSession(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            answer = session_pb2_grpc.SessionStub(channel).Recommend(
                session_pb2.RecommendRequest(client_id="c1"), timeout=10
            )
    finally:
        server.stop(grace=None).wait()

    assert answer.instance_id == "instance of c1"
