"""What Docker says of a container becomes one word for what is wrong with it, or none."""

from __future__ import annotations

from typing import Any

import pytest

from runner.stack import labels, services


class _Container:
    id = "0123456789abcdef"

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.attrs = attrs

    def reload(self) -> None:
        """Nothing changes."""


def _trouble(state: dict[str, Any], **attrs: Any) -> str:
    container = _Container({"State": state, **attrs})
    return services.state("engine", container).trouble  # type: ignore[arg-type]


ATTACHED = {"NetworkSettings": {"Networks": {"default": {}}}}
CUT_OFF: dict[str, Any] = {"NetworkSettings": {"Networks": {}}}


@pytest.mark.parametrize(
    ("state", "attrs", "said"),
    [
        pytest.param({"Status": "running"}, ATTACHED, "", id="fine"),
        pytest.param({"Status": "running"}, {}, "", id="networks not told"),
        pytest.param({"Status": "created"}, CUT_OFF, "", id="not started yet"),
        pytest.param({"Status": "running"}, CUT_OFF, "was cut off from its network", id="cut off"),
        pytest.param({"Status": "paused"}, ATTACHED, "was paused", id="paused"),
        pytest.param({"Status": "running"}, {"RestartCount": 2, **ATTACHED}, "restarted 2 times", id="restarted"),
        pytest.param({"Status": "exited", "ExitCode": 137}, CUT_OFF, "killed (SIGKILL)", id="killed"),
        pytest.param({"Status": "exited", "ExitCode": 0}, ATTACHED, "ended with exit code 0", id="ended well"),
        pytest.param(
            {"Status": "exited", "ExitCode": 137, "OOMKilled": True},
            ATTACHED,
            "killed for memory (OOM); raise its memory limit or free memory on the Docker host",
            id="out of memory",
        ),
    ],
)
def test_trouble_is_named(state: dict[str, Any], attrs: dict[str, Any], said: str) -> None:
    assert _trouble(state, **attrs) == said


class _Client:
    """Lists containers of a project, as Compose labels them."""

    def __init__(self, *listed: tuple[str, int]) -> None:
        self.containers = self
        self._listed = listed

    def list(self, **_: object) -> list[Any]:
        made = []
        for service, number in self._listed:
            container = _Container({"NetworkSettings": {"Ports": {}}})
            container.labels = {labels.SERVICE: service, labels.NUMBER: str(number)}  # type: ignore[attr-defined]
            made.append(container)
        return made


def test_one_worker_is_called_as_its_service_and_several_are_numbered() -> None:
    alone = _Client(("engine", 1), ("session-v1", 1), ("session-v2", 1), ("runner", 1))
    found = services.containers(alone, "project")  # type: ignore[arg-type]
    assert list(found) == ["engine", "session-v1", "session-v2", "runner"]
    scaled = _Client(("engine", 1), ("session-v1", 2), ("session-v1", 1), ("session-v2", 1), ("session-v2", 2))
    found = services.containers(scaled, "project", workers=2)  # type: ignore[arg-type]
    assert set(found) == {"engine", *services.worker_names("session-v1", 2), *services.worker_names("session-v2", 2)}
    assert found["session-v1-1"].labels[labels.NUMBER] == "1"


@pytest.mark.parametrize(
    ("ports", "seen"),
    [
        ({"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "32771"}], "30000/tcp": None}, ("127.0.0.1", 32771)),
        ({"8080/tcp": None}, None),
        (None, None),
    ],
)
def test_a_published_port_is_read_back_from_docker(ports: object, seen: object) -> None:
    container = _Container({"NetworkSettings": {"Ports": ports}})
    assert services.published(container, 8080) == seen  # type: ignore[arg-type]
