"""`gate`: the verdict of recorded artifacts, computed again from plan and ledgers alone."""

from __future__ import annotations

from pathlib import Path

from runner.base.terms import ExitCode
from runner.report.closing import print_closing
from runner.verdict.artifacts import load_run


def gate(run: Path) -> ExitCode:
    """Print the verdict of `run` and return its exit code. Writes nothing."""
    _, verdict = load_run(run)
    print_closing(verdict, run)
    return verdict.exit_code
