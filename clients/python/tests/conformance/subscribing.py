"""The steps of streams of deliveries."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ackmesh.v1 import eventmesh_pb2 as pb
from ackmesh.v1 import subscription_pb2
from google.protobuf import json_format

from conformance.world import CODES, Failed, Held, Stream, World, same


@dataclass(frozen=True)
class Position:
    """What Opened says about the one partition of a topic."""

    topic: str
    next_offset: int
    ahead: list[list[int]] = field(default_factory=list)

    def check(self, told: Iterable[subscription_pb2.Position]) -> None:
        for got in told:
            if got.topic == self.topic:
                same(f"the position in {self.topic}", got.next_offset, self.next_offset)
                ahead = [[r.first, r.last] for r in got.finished_ahead]
                same(f"what is finished ahead in {self.topic}", ahead, self.ahead)
                return
        raise Failed(f"no position in {self.topic} is told")


def open_stream(
    world: World,
    *,
    stream: str,
    open: dict[str, Any],
    results: dict[str, str] | None = None,
    positions: list[dict[str, Any]] | None = None,
    code: str = "OK",
) -> None:
    """Begins a stream and waits for Opened, or for its end where it is refused."""
    message = json_format.ParseDict(open, pb.Open())
    s = world.connect(stream)
    s.send(open=message)
    if code != "OK":
        ended(world, stream=stream, code=code)
        return
    opened = world.wait_for("Opened", lambda: s.opened, [s])
    _check_results(opened.results, results or {})
    for position in positions or []:
        Position(**position).check(opened.positions)


def _check_results(results: Iterable[pb.SubscriptionResult], want: dict[str, str]) -> None:
    """Subscriptions that are not named are to stand."""
    missing = set(want)
    for result in results:
        name, got = str(result.id), CODES[result.status.code]
        missing.discard(name)
        if got != (right := want.get(name, "OK")):
            raise Failed(f"subscription {name} is {got} {result.status.message}, not {right}")
    if missing:
        raise Failed(f"subscriptions {sorted(missing)} have no result")


def change(
    world: World, *, stream: str, change: dict[str, Any], results: dict[str, str] | None = None
) -> None:
    """Changes the subscriptions of a stream and waits for Changed."""
    message = json_format.ParseDict(change, pb.Change())
    s = world.stream(stream)
    s.send(change=message)
    changed = world.wait_for("Changed", lambda: s.changed.get(message.change_id), [s])
    _check_results(changed.results, results or {})


@dataclass(frozen=True)
class Expected:
    """One delivery. What is not set may be anything, but attempt."""

    # `as` is no name in Python; _expected renames it.
    label: str = ""
    stream: str | None = None
    subscription: int | None = None
    topic: str | None = None
    offset: int | None = None
    attempt: int = 1
    data: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)

    def check(self, held: Held) -> None:
        delivery = held.delivery
        same("attempt", delivery.attempt, self.attempt)
        for what, got, want in (
            ("stream", held.stream.name, self.stream),
            ("subscription", held.run.subscription, self.subscription),
            ("topic", held.run.topic, self.topic),
            ("offset", delivery.offset, self.offset),
            ("data", delivery.frame.data, None if self.data is None else self.data.encode()),
        ):
            if want is not None:
                same(what, got, want)
        for name, value in self.attributes.items():
            same(f"attribute {name}", delivery.frame.attributes.get(name), value)


def _expected(fields: dict[str, Any]) -> Expected:
    return Expected(**{("label" if name == "as" else name): v for name, v in fields.items()})


def receive(
    world: World,
    *,
    streams: list[str],
    deliveries: list[dict[str, Any]],
    any_order: bool = False,
    after_ms: int = 0,
) -> None:
    """Waits for deliveries: exactly these, and in this order unless any_order."""
    of = [world.stream(name) for name in streams]
    open_ones = [_expected(d) for d in deliveries]
    got: list[Held] = []

    def look() -> bool | None:
        got.extend(world.pick(of, len(deliveries) - len(got)))
        return True if len(got) == len(deliveries) else None

    try:
        world.wait_for(f"the last of {len(deliveries)} deliveries", look, of)
    except Failed as why:
        raise Failed(f"{why}; {len(got)} came: {[str(h) for h in got]}") from None
    for held in got:
        expected = _match(held, open_ones if any_order else open_ones[:1])
        early = world.nacked + after_ms / 1000 - held.at
        if after_ms and early > 0:
            raise Failed(f"{held} came {early} s early")
        open_ones.remove(expected)
        if expected.label:
            world.held[expected.label] = held


def _match(held: Held, open_ones: list[Expected]) -> Expected:
    """Which of the open expectations a delivery meets."""
    why = Failed("nothing more was to come")
    for expected in open_ones:
        try:
            expected.check(held)
        except Failed as failed:
            why = failed
        else:
            return expected
    raise Failed(f"{held} came: {why}")


@dataclass(frozen=True)
class Selection:
    """Names deliveries, on their own stream or another, and their AckResult."""

    stream: str = ""
    deliveries: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    as_range: bool = False
    status: str = "DURABLE"

    def resolve(self, world: World) -> tuple[Stream, list[int]]:
        """The stream and all ids."""
        for label in self.deliveries:
            if label not in world.held:
                raise Failed(f"nothing was received as {label!r}")
        held = [world.held[label] for label in self.deliveries]
        ids = [*self.ids, *(h.delivery.delivery_id for h in held)]
        if not ids or not (self.stream or held):
            raise Failed("no stream or no delivery is named")
        return world.stream(self.stream) if self.stream else held[0].stream, ids

    def fields(self, ids: list[int]) -> dict[str, Any]:
        """The ids as Ack, Nack and Extend have them."""
        if self.as_range:
            return {"ranges": [pb.DeliveryRange(first=min(ids), last=max(ids))]}
        return {"delivery_ids": ids}

    def settle(self, world: World, stream: Stream, ids: list[int]) -> None:
        """Waits until every id has an answer, and takes it."""
        if self.status == "NONE":
            return
        for delivery_id in ids:
            fates = stream.fates[delivery_id]
            world.wait_for("an AckResult", lambda: fates or None, [stream])
            same("the AckResult", fates.popleft(), f"STATUS_{self.status}")


def ack(world: World, **fields: Any) -> None:
    """Acks deliveries and waits for the answer."""
    selection = Selection(**fields)
    stream, ids = selection.resolve(world)
    stream.send(ack=pb.Ack(**selection.fields(ids)))
    selection.settle(world, stream, ids)


def nack(
    world: World,
    *,
    delay_ms: int | None = None,
    reason: str = "",
    dead_letter: bool = False,
    **fields: Any,
) -> None:
    """Gives deliveries back and waits for the answer."""
    selection = Selection(**fields)
    stream, ids = selection.resolve(world)
    message = pb.Nack(**selection.fields(ids), reason=reason, dead_letter=dead_letter)
    if delay_ms is not None:
        message.delay.FromMilliseconds(delay_ms)
        message.delay.SetInParent()  # 0 is a delay too
    world.nacked = time.monotonic()
    stream.send(nack=message)
    selection.settle(world, stream, ids)


def extend(world: World, *, by_ms: int, **fields: Any) -> None:
    """Moves the deadline of deliveries; nothing answers it."""
    selection = Selection(**fields)
    stream, ids = selection.resolve(world)
    message = pb.Extend(**selection.fields(ids))
    message.by.FromMilliseconds(by_ms)
    stream.send(extend=message)


def notice(world: World, *, stream: str, kind: str, subscription: int = 0) -> None:
    """Waits for a notice."""
    s = world.stream(stream)
    want = (f"KIND_{kind}", subscription)

    def look() -> bool | None:
        told = ((pb.Notice.Kind.Name(n.kind), n.subscription) for n in s.notices)
        return True if want in told else None

    world.wait_for(f"notice {kind}", look, [s])


def end(world: World, *, stream: str) -> None:
    """Ends a stream in order: with OK, and nothing came that no step received."""
    world.stream(stream).half_close()
    ended(world, stream=stream)


def ended(world: World, *, stream: str, code: str = "OK", reason: str = "") -> None:
    """Waits until the server has ended a stream."""
    s = world.stream(stream)
    how = world.wait_for(f"the end of stream {stream}", lambda: s.ended, [s])
    if how.code != code:
        raise Failed(f"the stream ended with {how}, not {code}")
    if reason:
        same("the reason", how.reason, reason)
    world.nothing_left(s)


def break_off(world: World, *, stream: str) -> None:
    """Breaks a stream, as a client does that dies."""
    s = world.stream(stream)
    s.close()
    world.wait_for("the break", lambda: s.ended, [s])
    world.waiting = [h for h in world.waiting if h.stream is not s]
