"""Compose variables are written so that both Compose and a shell read them back unchanged."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from runner.stack.project import Project, write_env_file


def test_values_with_spaces_and_dollars_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "repro.env"
    write_env_file(path, {"TITO_B": "a b $HOME", "TITO_A": ""})
    assert [shlex.split(line) for line in path.read_text().splitlines()] == [["TITO_A="], ["TITO_B=a b $HOME"]]


@pytest.mark.parametrize("value", ["two\nlines", "it's"])
def test_a_value_that_cannot_be_written_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ValueError, match="neither a newline nor a single quote"):
        write_env_file(tmp_path / "repro.env", {"TITO_A": value})


def test_the_project_name_is_on_every_command(tmp_path: Path) -> None:
    project = Project("tito-run-qwen3", tmp_path, tmp_path / "repro.env", overrides=[tmp_path / "gpu.yaml"])
    command = project._compose(profile="runner").docker_compose_command()
    assert command[-2:] == ["--project-name", "tito-run-qwen3"]
    assert command.count("-f") == 2
    assert "--profile" in command
