"""The scenario files of conformance/, against a server that `make test-python` starts."""

import os
import uuid
from pathlib import Path

import pytest
from conformance import Mesh, Scenario, StepError

FILES = Path(__file__).parents[3] / "conformance"
SCENARIOS = sorted((FILES / "scenarios").glob("*.json"))
WRONG = sorted((FILES / "wrong").glob("*.json"))


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    try:
        return Mesh(*(os.environ[f"ACKMESH_{name}"] for name in ("GRPC", "HTTP", "CONTROL")))
    except KeyError as missing:
        pytest.fail(f"{missing} is not set: run it with make test-python")


def load(path: Path) -> Scenario:
    return Scenario.load(path, f"python-{uuid.uuid4()}")


def test_there_are_scenarios() -> None:
    assert SCENARIOS
    assert WRONG


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_scenario(path: Path, mesh: Mesh) -> None:
    load(path).run(mesh)


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_wrong_scenario_fails(path: Path, mesh: Mesh) -> None:
    scenario = load(path)
    with pytest.raises(StepError) as failed:
        scenario.run(mesh)
    assert failed.value.step == scenario.fails_at, str(failed.value)
    assert scenario.fails_with
    assert scenario.fails_with in str(failed.value)
