"""A place that cannot be written is found before the work that would be lost, whichever command it was given to."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.base.reading import load_settings
from runner.base.terms import ExitCode
from runner.cli import gates, up
from runner.cli.contract import check_sglang
from runner.cli.place import writable, writing


def test_a_place_that_can_be_written_is_made_and_left_empty(tmp_path: Path) -> None:
    writable("OUT", tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    writable("OUT", tmp_path / "a")


def test_a_directory_in_which_no_file_can_be_made_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "file"))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    with pytest.raises(ConfigurationError, match=f"OUT='{tmp_path}' cannot be written: .*Permission denied") as caught:
        writable("OUT", tmp_path)
    assert caught.value.exit_code is ExitCode.USAGE


def test_only_what_the_system_refuses_is_about_the_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), writing("OUT", tmp_path):
        raise ValueError("mine")


def _sglang() -> object:
    return check_sglang(None, files=(), timeout=1, accept_drift=False)


def _bench() -> object:
    return gates.bench(load_settings(), ["engine-cpu"], "contract")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(_sglang, id="contract sglang"),
        pytest.param(_bench, id="bench"),
        pytest.param(lambda: up.up([]), id="up"),
    ],
)
def test_commands_with_artifacts_say_so_before_anything_is_built(
    command: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(*given: object) -> None:
        pytest.fail("something was built")

    monkeypatch.setattr(gates, "prepare", built)
    monkeypatch.setattr(up, "prepare", built)
    taken = tmp_path / "file"
    taken.touch()
    monkeypatch.setenv("ARTIFACTS", str(taken))
    with pytest.raises(ConfigurationError, match=f"ARTIFACTS='{taken}' cannot be written: .*File exists"):
        command()
