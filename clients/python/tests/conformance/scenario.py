"""Scenario files, read and done step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from conformance import publishing, subscribing
from conformance.world import Mesh, World

# All steps there are, by the name that `do` has. What a step may say are the
# parameters of its function, so that a field that it does not know is refused.
STEPS: Mapping[str, Callable[..., None]] = {
    "publish": publishing.publish,
    "publish_stream": publishing.publish_stream,
    "recommend": publishing.recommend,
    "crash": publishing.crash,
    "open": subscribing.open_stream,
    "change": subscribing.change,
    "receive": subscribing.receive,
    "ack": subscribing.ack,
    "nack": subscribing.nack,
    "extend": subscribing.extend,
    "notice": subscribing.notice,
    "end": subscribing.end,
    "break": subscribing.break_off,
    "ended": subscribing.ended,
}


class StepError(Exception):
    """A step failed: which, counted from 1, and why."""

    def __init__(self, step: int, do: str, why: object) -> None:
        super().__init__(f"step {step}, {do}: {why}")
        self.step = step


class Scenario:
    """One file."""

    def __init__(
        self,
        *,
        about: str,
        steps: list[dict[str, Any]],
        patience_ms: int = 20_000,
        fails_at: int = 0,
        fails_with: str = "",
    ) -> None:
        self.about = about
        self.patience = patience_ms / 1000
        # The step that fails, from 1, and a part of the reason; of conformance/wrong only.
        self.fails_at = fails_at
        self.fails_with = fails_with
        self.steps = steps

    @classmethod
    def load(cls, path: Path, run: str) -> Scenario:
        """Reads a file; run takes the place of ${run}, so that its topics are its own."""
        return cls(**json.loads(path.read_text(encoding="utf-8").replace("${run}", run)))

    def run(self, mesh: Mesh) -> None:
        """Does all steps, and then ends in order the streams that are left.

        A failure is a StepError; one of that ending counts as a step behind the last.
        """
        world = World(mesh, self.patience)
        try:
            for number, step in enumerate(self.steps, 1):
                _do(world, number, **step)
            for name in sorted(name for name, s in world.streams.items() if s.ended is None):
                _do(world, len(self.steps) + 1, do="end", stream=name)
        finally:
            world.close()


def _do(world: World, number: int, do: str, **fields: Any) -> None:
    if do not in STEPS:
        raise StepError(number, do, "there is no step of that name")
    try:
        STEPS[do](world, **fields)
    except Exception as why:  # whatever it is, the step has failed
        raise StepError(number, do, why) from why
