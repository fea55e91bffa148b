"""compose.yaml as data: what is there is read, and what would be left out unseen is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runner.base.errors import InfrastructureError
from runner.cli.stacks import ROOT
from runner.stack.definition import COMPOSE, seconds, services, size

TEXT = (ROOT / COMPOSE).read_text(encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a copy of compose.yaml, for tests to change."""
    (tmp_path / COMPOSE).write_text(TEXT, encoding="utf-8")
    return tmp_path


def change(root: Path, service: str, **changes: object) -> Path:
    """The copy with keys of one service changed."""
    loaded = yaml.safe_load(TEXT)
    loaded["services"][service] |= changes
    (root / COMPOSE).write_text(yaml.safe_dump(loaded), encoding="utf-8")
    return root


def test_every_service_is_read_with_its_variables_filled_in() -> None:
    found = services(ROOT, {"TITO_FAMILY": "glm47", "TITO_ENGINE_MEMORY": "", "TITO_SESSION_IMAGE": "mine:1"})
    assert set(found) == {"engine", "session-v1", "session-v2", "runner"}
    engine, session = found["engine"], found["session-v1"]
    assert engine.environment["FAMILY"] == "glm47"
    assert engine.mem_limit == 8 << 30, "an empty variable counts as none"
    assert (engine.port, session.port) == (30000, 8080)
    assert session.image == "mine:1"
    assert all(service.user == (10001, 10001) and service.read_only for service in found.values())
    assert all(service.cap_drop == ["ALL"] for service in found.values())


@pytest.mark.parametrize(("text", "expected"), [("3s", 3.0), ("1m30s", 90.0), ("250ms", 0.25), ("1h", 3600.0)])
def test_durations_are_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "3", "s", "3 s", "3s!", "3x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        seconds(text)


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("64m", 64 << 20), ("8g", 8 << 30), ("1kb", 1024)])
def test_sizes_are_read(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "g", "1.5g", "8 g", "-1", "8t"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        size(text)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"network_mode": "host"}, id="a key that is not known"),
        pytest.param({"image": "$IMAGE"}, id="a variable in another form"),
        pytest.param({"image": "${IMAGE:?it is needed}"}, id="a variable that must be set"),
        pytest.param({"mem_limit": "much"}, id="no size"),
        pytest.param({"healthcheck": {"test": ["CMD", "true"]}}, id="half a health check"),
        pytest.param({"user": "somebody"}, id="a user without a number"),
        pytest.param({"user": None}, id="no user"),
    ],
)
def test_what_is_not_understood_is_refused_and_never_left_out(root: Path, changes: dict[str, object]) -> None:
    with pytest.raises(InfrastructureError, match="not understood"):
        services(change(root, "engine", **changes), {})


def test_a_dollar_sign_can_be_said(root: Path) -> None:
    found = services(change(root, "engine", environment={"PRICE": "5$$"}), {})
    assert found["engine"].environment == {"PRICE": "5$"}


@pytest.mark.parametrize("text", [None, "", "services: [", "services: 3", "name: x"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / COMPOSE).write_text(text)
    with pytest.raises(InfrastructureError, match=r"compose\.yaml"):
        services(tmp_path, {})
