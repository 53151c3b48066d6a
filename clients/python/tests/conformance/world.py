"""One scenario under way: its streams, and what they brought."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from ackmesh.v1 import eventmesh_pb2 as pb
from ackmesh.v1 import eventmesh_pb2_grpc as pb_grpc
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

T = TypeVar("T")

CODES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


class Failed(Exception):
    """Something is not as the scenario says."""


@dataclass(frozen=True)
class Mesh:
    """Where a server is: host:port of gRPC and HTTP, a URL that takes POST /crash."""

    grpc: str
    http: str
    control: str


@dataclass(frozen=True)
class End:
    """How a stream ended."""

    code: str
    message: str = ""
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Held:
    """One delivery and what its run says."""

    stream: Stream
    run: pb.Run
    delivery: pb.Delivery
    at: float

    def __str__(self) -> str:
        d = self.delivery
        return f"{d.frame.data[:40]!r} of {self.run.topic}, offset {d.offset}, attempt {d.attempt}"


@dataclass(frozen=True)
class Arrival:
    """One message of a stream, or its end."""

    stream: Stream
    at: float
    what: pb.SubscribeResponse | End


@dataclass(eq=False)
class Stream:
    """One Subscribe call on a connection of its own."""

    name: str
    channel: grpc.Channel
    arrivals: queue.SimpleQueue[Arrival]
    outgoing: queue.SimpleQueue[pb.SubscribeRequest | None] = field(
        default_factory=queue.SimpleQueue
    )
    opened: pb.Opened | None = None
    changed: dict[int, pb.Changed] = field(default_factory=dict)
    # Of each delivery id, the statuses that no step has looked at yet.
    fates: defaultdict[int, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    notices: list[pb.Notice] = field(default_factory=list)
    ended: End | None = None

    def __post_init__(self) -> None:
        requests = iter(self.outgoing.get, None)
        self.call = pb_grpc.EventMeshStub(self.channel).Subscribe(requests, wait_for_ready=True)
        self.reader = threading.Thread(target=self._read, name=f"stream {self.name}")
        self.reader.start()

    def _read(self) -> None:
        try:
            for message in self.call:
                self.arrivals.put(Arrival(self, time.monotonic(), message))
            end = End("OK")
        except grpc.RpcError:
            end = End(self.call.code().name, self.call.details() or "", _reason(self.call))
        self.arrivals.put(Arrival(self, time.monotonic(), end))

    def send(self, **kind: object) -> None:
        """Sends a SubscribeRequest; that the stream has ended is told by what is awaited."""
        self.outgoing.put(pb.SubscribeRequest(**kind))  # type: ignore[arg-type]

    def half_close(self) -> None:
        self.outgoing.put(None)

    def close(self) -> None:
        """Breaks the stream if it has not ended, and its connection."""
        self.call.cancel()
        self.outgoing.put(None)
        self.reader.join()
        self.channel.close()


def _reason(call: grpc.Call) -> str:
    """The reason of the ErrorInfo of a status; empty: it has none."""
    for key, value in call.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            info = error_details_pb2.ErrorInfo()
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    return str(info.reason)
    return ""


class World:
    """Everything that streams bring comes through arrivals, so that one thread knows all of it."""

    def __init__(self, mesh: Mesh, patience: float) -> None:
        self.mesh = mesh
        self.patience = patience
        self.arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self.streams: dict[str, Stream] = {}
        self.waiting: list[Held] = []  # arrived, and no step has received them
        self.held: dict[str, Held] = {}  # received, by their labels
        self.nacked = 0.0  # when the last nack was sent

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()

    def dial(self) -> grpc.Channel:
        """Connects anew."""
        own = ("grpc.use_local_subchannel_pool", 1)  # else channels share a connection
        return grpc.insecure_channel(self.mesh.grpc, options=[own])

    def connect(self, name: str) -> Stream:
        """Begins a stream, and replaces one of that name which has ended."""
        old = self.streams.get(name)
        if old is not None and old.ended is None:
            raise Failed(f"stream {name} is open")
        self.streams[name] = Stream(name, self.dial(), self.arrivals)
        return self.streams[name]

    def stream(self, name: str) -> Stream:
        if name not in self.streams:
            raise Failed(f"no stream is called {name!r}")
        return self.streams[name]

    def wait_for(self, what: str, look: Callable[[], T | None], of: Sequence[Stream]) -> T:
        """Takes in what arrives until look finds something.

        It fails when the patience is over, or the only streams that could bring it have ended.
        """
        deadline = time.monotonic() + self.patience
        while (found := look()) is None:
            if all(s.ended is not None for s in of):
                raise Failed(f"{what} did not come: stream {of[0].name} ended with {of[0].ended}")
            try:
                self._take(self.arrivals.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                raise Failed(f"{what} did not come within {self.patience} s") from None
        return found

    def _take(self, arrival: Arrival) -> None:
        """Notes one message where it belongs."""
        stream, what = arrival.stream, arrival.what
        if isinstance(what, End):
            stream.ended = what
            stream.close()
            return
        match what.WhichOneof("kind"):
            case "opened":
                stream.opened = what.opened
            case "changed":
                stream.changed[what.changed.change_id] = what.changed
            case "notice":
                stream.notices.append(what.notice)
            case "ack_result":
                for outcome in what.ack_result.outcomes:
                    for delivery_id in _spread(outcome):
                        stream.fates[delivery_id].append(pb.AckResult.Status.Name(outcome.status))
            case "deliveries":
                for run in what.deliveries.runs:
                    self.waiting += (Held(stream, run, d, arrival.at) for d in run.deliveries)

    def pick(self, of: Sequence[Stream], count: int) -> list[Held]:
        """Takes the first deliveries of some streams that are waiting."""
        got = [h for h in self.waiting if h.stream in of][:count]
        self.waiting = [h for h in self.waiting if h not in got]
        return got

    def nothing_left(self, stream: Stream) -> None:
        """Fails if a stream brought a delivery that no step received."""
        for held in self.waiting:
            if held.stream is stream:
                raise Failed(f"stream {stream.name} brought what no step received: {held}")


def _spread(outcome: pb.AckResult.Outcome) -> Iterator[int]:
    """The ids of an outcome and every id of its ranges."""
    yield from outcome.delivery_ids
    for ids in outcome.ranges:
        yield from range(ids.first, ids.last + 1)


def same(what: str, got: object, want: object) -> None:
    """Fails unless two values are equal."""
    if got != want:
        raise Failed(f"{what} is {got!r}, not {want!r}")
