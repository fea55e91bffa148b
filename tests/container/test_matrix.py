"""Several families on the scripted engine: in one run, and as shards whose verdicts are merged. Real containers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runner.verdict.artifacts import load_plan, load_run
from tests.container.conftest import ROOT, Ended, Left, Start

FAMILIES = ("glm47", "minimax_m27")
"""One whose joint drops a token, and one that opts out of Anthropic; tests/unit/matrix has all eight."""
BROKEN = "glm47"
SECONDS = 900.0
"""A row takes about 15 s on a quiet machine; this only ends a hang."""

Faulty = Callable[[list[dict[str, Any]]], str]
Cells = dict[str, str]


@pytest.fixture
def run(start: Start, faulty: Faulty) -> Callable[..., Ended]:
    """Run the matrix of these families; the engine of one of them loses a token in turn 2 of every session."""
    image = faulty([{"kind": "drop_token", "turn": 2, "times": None, "family": BROKEN}])

    def matrix(name: str, **variables: str) -> Ended:
        ours = {"ENGINE": "scripted", "ENGINE_IMAGE": image, "LANES": "all", "SAMPLES": "1", "CYCLES": "1"}
        return start(name=name, FAMILY=",".join(FAMILIES), **{**ours, **variables}).end(SECONDS)

    return matrix


def outcomes(ended: Ended) -> Cells:
    """Cell -> outcome."""
    return {cell["cell"]: cell["outcome"] for cell in ended.verdict()["cells"]}


def expected() -> Cells:
    """What a fault of one family makes of the whole plan."""
    cells = {}
    for family in FAMILIES:
        for lane in ("v1-openai", "v2-openai", "v2-anthropic"):
            outcome = "hard" if family == BROKEN else "pass"
            applicable = family != "minimax_m27" or lane != "v2-anthropic"
            cells[f"{family}/{lane}/baseline"] = outcome if applicable else "not-applicable"
    return cells


def merge(out: Path, runs: list[Path]) -> subprocess.CompletedProcess[str]:
    """`python -m runner merge`, where there is no Docker to be found."""
    nowhere = {**os.environ, "DOCKER_HOST": "unix:///nowhere", "CI": "1"}
    return subprocess.run(
        [sys.executable, "-m", "runner", "merge", str(out), *map(str, runs)],
        cwd=ROOT,
        env=nowhere,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_familys_fault_fails_its_cells_alone_whether_in_one_run_or_in_merged_shards(
    run: Callable[..., Ended], left: Callable[[str], Left], tmp_path: Path
) -> None:
    whole = run("whole")
    assert whole.code == 1, whole.stderr
    assert "no SGLang and no model take part" in whole.stderr
    assert outcomes(whole) == expected()
    assert side_by_side(whole), "two families at the same time is what ENGINE=scripted does by itself"
    assert not left(whole.run_id)
    plan = load_plan(whole.run_dir)
    assert {lease.engine.value for lease in plan.leases} == {"scripted"}

    shards = [run(f"shard-{index}", SHARD=f"{index}/2") for index in (1, 2)]
    assert sorted(ended.code for ended in shards) == [0, 1]
    done = merge(tmp_path / "merged", [ended.run_dir for ended in shards])
    assert done.returncode == 1, done.stderr
    _, merged = load_run(tmp_path / "merged")
    assert {cell.cell: cell.outcome.value for cell in merged.cells} == outcomes(whole)

    sound = [ended.run_dir for ended in shards if ended.code == 0]
    (absent,) = (load_plan(ended.run_dir).shard for ended in shards if ended.code)
    done = merge(tmp_path / "lacking", sound)
    assert done.returncode == 4, done.stderr
    assert f"shard {absent} is missing" in done.stdout
    _, lacking = load_run(tmp_path / "lacking")
    assert {cell.cell: cell.outcome.value for cell in lacking.cells} == {
        cell: "incomplete" if cell.startswith(BROKEN) else outcome for cell, outcome in expected().items()
    }


def side_by_side(ended: Ended) -> bool:
    """Whether two leases overlapped."""
    spans = sorted(
        (datetime.fromisoformat(lease["wall"]["started_at"]), datetime.fromisoformat(lease["wall"]["ended_at"]))
        for lease in ended.verdict()["leases"]
    )
    return any(later[0] < earlier[1] for earlier, later in pairwise(spans))
