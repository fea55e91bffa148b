"""A series of runs: each is judged by itself, and one alarm among many is the series' own."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.base.terms import ExitCode, Outcome
from runner.cli.soak import soak, worst
from runner.report.series import print_series, series_line
from runner.verdict.artifacts import load_run
from runner.verdict.model import Verdict
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.cli.test_running import CELL, engine, urls

__all__ = ["engine", "urls"]


@pytest.fixture
def variables(urls: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As on the command line. They are set before, so that what the command sets is taken back afterwards."""
    given = {**urls, "LANES": "v2-openai", "SAMPLES": "1", "CYCLES": "1", "ARTIFACTS": str(tmp_path), "CI": "1"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return [f"{name}={value}" for name, value in given.items()]


def test_every_run_has_its_own_artifacts_and_the_table_says_how_often_it_passed(
    variables: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak(variables, 2) is ExitCode.OK
    runs = sorted(path.name for path in tmp_path.iterdir())
    assert len(runs) == 2
    out = capsys.readouterr().out
    assert "2 of 2 runs passed; cells: 2 pass; retries 0" in out
    assert all(f": {run}" in out for run in runs)
    (line,) = [line for line in out.splitlines() if CELL in line and "2 pass" in line]
    assert "2/2" in line


def test_one_alarm_among_many_runs_is_told_and_is_the_exit_code(
    variables: list[str], engine: ScriptedEngine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    engine.faults.append(Fault(Kind.SWAP_TOKEN, turn=2, times=1))
    assert soak(variables, 2) is ExitCode.VERIFICATION_FAILED
    out = capsys.readouterr().out
    assert "1 of 2 runs passed; cells: 1 hard, 1 pass; retries 0" in out
    codes = {path.name: load_run(path)[1].exit_code for path in tmp_path.iterdir()}
    (failed,) = [name for name, code in codes.items() if code is ExitCode.VERIFICATION_FAILED]
    assert f"{failed}: exit code 1" in out


def test_a_series_of_no_runs_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="RUNS=0; allowed: a whole number, at least 1"):
        soak([], 0)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([ExitCode.OK, ExitCode.OK], ExitCode.OK),
        ([ExitCode.INCOMPLETE, ExitCode.OK], ExitCode.INCOMPLETE),
        ([ExitCode.INCOMPLETE, ExitCode.INFRASTRUCTURE], ExitCode.INFRASTRUCTURE),
        ([ExitCode.INFRASTRUCTURE, ExitCode.VERIFICATION_FAILED, ExitCode.OK], ExitCode.VERIFICATION_FAILED),
    ],
)
def test_the_worst_code_wins(codes: list[ExitCode], expected: ExitCode) -> None:
    assert worst(codes) is expected


def test_a_cell_that_one_run_does_not_have_is_told() -> None:
    cell = {
        "cell": CELL,
        "family": "qwen3",
        "lane": "v2-openai",
        "scenario": "baseline",
        "outcome": Outcome.PASS,
        "failed": False,
        "planned_samples": 2,
        "completed_samples": 2,
        "soft_ratio": 0.5,
    }
    one = Verdict.model_validate({"run_id": "a", "exit_code": ExitCode.OK, "cells": [cell]})
    none = Verdict.model_validate({"run_id": "b", "exit_code": ExitCode.INCOMPLETE, "cells": []})
    stream = io.StringIO()
    print_series([one, none], stream=stream)
    assert "1 pass, 1 not there" in stream.getvalue()
    assert "b: exit code 4" in stream.getvalue()
    assert series_line([one, none]) == "1 of 2 runs passed; cells: 1 pass; retries 0"
