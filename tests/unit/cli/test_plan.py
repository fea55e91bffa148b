"""`plan`: a table for a person on a terminal, the plan itself for whoever reads it from a pipe or asks for it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from runner.cli.stacks import ROOT
from runner.plan.model import Plan

COMMAND = [sys.executable, "-m", "runner", "plan", "LANES=v1-openai", "SAMPLES=3"]


def on_a_terminal(*options: str) -> str:
    """What the command prints where standard output is a terminal."""
    ours, theirs = pty.openpty()
    said = b""
    with subprocess.Popen([*COMMAND, *options], cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65536):
                said += chunk
        except OSError:  # how Linux tells the end of a terminal that nobody holds any more
            pass
        finally:
            os.close(ours)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return said.decode().replace("\r\n", "\n")


def test_a_person_on_a_terminal_gets_a_table() -> None:
    said = on_a_terminal()
    assert "scenarios" in said
    assert "1 of 1 cells run, with 3 samples, seed 1; leases: 1 on the CPU" in said
    assert "nothing was started" in said
    assert "schema_version" not in said


def test_a_pipe_gets_the_plan_and_nothing_else() -> None:
    done = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, check=True)
    assert len(Plan.model_validate_json(done.stdout).cells[0].samples) == 3


def test_the_plan_can_be_asked_for_on_a_terminal() -> None:
    assert Plan.model_validate_json(on_a_terminal("--json")).cells[0].lane == "v1-openai"
