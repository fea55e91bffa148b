"""The committed micro model behaves, served by real SGLang: the verifier's dialogues and held-out wordings."""

from __future__ import annotations

import json
from pathlib import Path

from runner.cli.stacks import ROOT
from tests.e2e.conftest import Stack, run_module


def test_the_micro_model_calls_answers_and_stops_well_enough(stack: Stack, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = run_module(
        *("micro", "evaluate", "--family", stack.family, "--url", stack.engine, "--temperature", "0.7"),
        *("--json", str(figures)),
        path=ROOT / "images" / "engine-cpu",
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(figures.read_text())
    shares = {name: counts[name][0] / counts[name][1] for name in ("calls", "texts", "cities")}
    assert counts["calls"][1] >= 100
    assert counts["texts"][1] >= 100
    assert shares["calls"] >= 0.97
    assert shares["texts"] >= 0.97
    assert shares["cities"] >= 0.90
