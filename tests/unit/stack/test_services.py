"""What Docker says of a container becomes one word for what is wrong with it, or none."""

from __future__ import annotations

from typing import Any

import pytest

from runner.stack import services


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
