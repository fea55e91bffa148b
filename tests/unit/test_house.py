"""The house rules that a machine can hold: layers, types, lint, and the promises that compose.yaml makes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["lint-imports"], id="imports go one way"),
        pytest.param(["mypy"], id="types are complete"),
        pytest.param(["ruff", "check", "."], id="lint is clean"),
        pytest.param(["ruff", "format", "--check", "."], id="formatting is settled"),
    ],
)
def test_the_tree_is_clean(command: list[str]) -> None:
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """The services of compose.yaml with anchors and merges applied."""
    loaded: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return loaded


@pytest.mark.parametrize("name", ["engine", "session-v1", "session-v2", "runner"])
def test_every_container_is_hardened(services: dict[str, dict[str, Any]], name: str) -> None:
    service = services[name]
    assert service["user"] == "10001:10001"
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert service["init"] is True
    assert "privileged" not in service
    assert "network_mode" not in service
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert not any("docker.sock" in str(volume) for volume in service["volumes"])


@pytest.mark.parametrize("name", ["engine", "session-v1", "session-v2"])
def test_ports_are_chosen_by_docker_on_loopback(services: dict[str, dict[str, Any]], name: str) -> None:
    """A session server's port is empty, and so Docker's choice, unless a range was asked for by variable."""
    unset = [re.sub(r"\$\{\w+:-\}", "", port) for port in services[name]["ports"]]
    assert unset
    assert all(port.startswith("127.0.0.1::") for port in unset)


def test_everything_carries_the_run_label(services: dict[str, dict[str, Any]]) -> None:
    whole = yaml.safe_load((ROOT / "compose.yaml").read_text())
    labelled = [*services.values(), *whole["networks"].values(), *whole["volumes"].values()]
    assert all("io.github.tito-e2e.run" in item["labels"] for item in labelled)
