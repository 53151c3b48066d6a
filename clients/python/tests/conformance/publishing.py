"""The steps that are no stream of deliveries."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any

import grpc
from ackmesh.v1 import eventmesh_pb2 as pb
from ackmesh.v1 import eventmesh_pb2_grpc, frame_pb2, session_pb2, session_pb2_grpc

from conformance.world import CODES, Failed, World, same


@dataclass(frozen=True)
class Event:
    """One event to publish, and what is to become of it."""

    attributes: dict[str, str] = field(default_factory=dict)
    data: str = ""
    size: int = 0
    code: str = "OK"
    offset: int | None = None

    def frame(self) -> frame_pb2.EventMeshFrame:
        data = (self.data + "x" * self.size).encode()
        return frame_pb2.EventMeshFrame(attributes=self.attributes, data=data)


class Request:
    """One PublishRequest and what its answer is to say."""

    def __init__(
        self, *, topic: str, events: list[dict[str, Any]], partition_key: str = "", code: str = "OK"
    ) -> None:
        self.topic, self.partition_key, self.code = topic, partition_key, code
        self.events = [Event(**e) for e in events]

    def message(self, request_id: int) -> pb.PublishRequest:
        return pb.PublishRequest(
            topic=self.topic,
            partition_key=self.partition_key,
            events=[e.frame() for e in self.events],
            request_id=request_id,
        )

    def check(self, answer: pb.PublishResponse, request_id: int) -> None:
        """The events of a request that was refused as a whole have no fate of their own."""
        same("request_id", answer.request_id, request_id)
        if (got := CODES[answer.status.code]) != self.code:
            raise Failed(f"the request's status is {got} {answer.status.message}, not {self.code}")
        if got != "OK" and not answer.events:
            return
        same("the number of events answered", len(answer.events), len(self.events))
        for i, (was, event) in enumerate(zip(answer.events, self.events), 1):
            same(f"the status of event {i}", CODES[was.status.code], event.code)
            if event.offset is not None:
                same(f"the offset of event {i}", was.offset, event.offset)


def publish(world: World, **fields: Any) -> None:
    """Calls Publish once."""
    request = Request(**fields)
    with world.dial() as channel:
        stub = eventmesh_pb2_grpc.EventMeshStub(channel)
        try:
            answer = stub.Publish(request.message(1), timeout=world.patience, wait_for_ready=True)
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call):
                raise
            answer = pb.PublishResponse(request_id=1)
            answer.status.code = error.code().value[0]
            answer.status.message = error.details() or ""
    request.check(answer, 1)


def publish_stream(world: World, *, requests: list[dict[str, Any]]) -> None:
    """Sends all requests on one PublishStream and takes the answers, which come in their order."""
    wanted = [Request(**r) for r in requests]
    with world.dial() as channel:
        stub = eventmesh_pb2_grpc.EventMeshStub(channel)
        messages = iter([r.message(i) for i, r in enumerate(wanted, 1)])
        call = stub.PublishStream(messages, timeout=world.patience, wait_for_ready=True)
        try:
            answers = list(call)
        except grpc.RpcError as error:
            raise Failed(f"the stream broke: {error}") from error
    same("the number of answers", len(answers), len(wanted))
    for i, (request, answer) in enumerate(zip(wanted, answers), 1):
        request.check(answer, i)


def recommend(world: World, *, over: str) -> None:
    """Asks where to connect; an instance alone recommends itself."""
    if over == "http":
        where = _recommend_http(world)
    elif over in ("grpc", "grpc_literal"):
        where = _recommend_grpc(world, literal=over == "grpc_literal")
    else:
        raise Failed(f"over {over!r}: it must be http, grpc or grpc_literal")
    same("instance_url", where, world.mesh.grpc)


def _recommend_http(world: World) -> str:
    url = f"http://{world.mesh.http}/session/recommend?client_id=conformance"
    with urllib.request.urlopen(url, timeout=world.patience) as response:
        return str(json.load(response)["instanceUrl"])


def _recommend_grpc(world: World, *, literal: bool) -> str:
    request = session_pb2.RecommendRequest(client_id="conformance")
    with world.dial() as channel:
        if not literal:
            stub = session_pb2_grpc.SessionStub(channel)
            return stub.Recommend(request, timeout=world.patience, wait_for_ready=True).instance_url
        call = channel.unary_unary(
            "/session/recommend",
            request_serializer=session_pb2.RecommendRequest.SerializeToString,
            response_deserializer=session_pb2.RecommendResponse.FromString,
        )
        return call(request, timeout=world.patience, wait_for_ready=True).instance_url


def crash(world: World) -> None:
    """Has the server killed and started again."""
    with urllib.request.urlopen(f"{world.mesh.control}/crash", data=b"", timeout=90) as response:
        same("the status of crash", response.status, 200)
