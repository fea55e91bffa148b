"""A run from start to end: what it says, what it leaves on disk, and that it leaves nothing in Docker."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.container.conftest import Ended, Left, Start

CELL = "qwen3/v1-openai/baseline"


@pytest.fixture
def passed(start: Start) -> Ended:
    return start().end()


def test_a_clean_run_passes_with_all_its_evidence_and_leaves_nothing(
    passed: Ended, left: Callable[[str], Left], start: Start
) -> None:
    assert passed.code == 0, passed.stderr
    cell = passed.cell(CELL)
    assert cell["outcome"] == "pass"
    assert cell["completed_samples"] == cell["planned_samples"] == 2
    for sample in cell["samples"]:
        wanted = {"append_tool", "rollback", "append_user", "append_system", "append_assistant"}
        assert wanted <= set(sample["driver_events"])
    assert {sample["stream"] for sample in cell["samples"]} == {True, False}

    assert CELL in passed.stdout
    assert str(passed.run_dir) in passed.stdout
    files = {str(path.relative_to(passed.run_dir)) for path in passed.run_dir.rglob("*") if path.is_file()}
    services = ("engine", "session-v1", "session-v2", "runner")
    assert files >= {
        *("plan.json", "verdict.json", "report.html", "junit.xml", "summary.md", "environment.json"),
        *(f"logs/qwen3/{service}.log" for service in services),
        *(f"leases/qwen3/{name}" for name in ("ledger.jsonl", "compose.env", "compose.resolved.yaml", "states.json")),
        "leases/qwen3/engine.json",
        f"cells/{CELL}/ledger.jsonl",
        *(f"cells/{CELL}/sessions/{index}.json" for index in (0, 1)),
    }
    assert all((passed.run_dir / f"logs/qwen3/{service}.log").read_text().strip() for service in services)
    facts = json.loads((passed.run_dir / "environment.json").read_text())
    assert all(facts["images"][kind]["id"].startswith("sha256:") for kind in ("engine", "session", "runner"))
    engine = facts["engines"]["qwen3"]
    assert engine["version"] == "0.0.0+scripted"
    assert engine["determinism"]["same_seed"] == "no"
    assert "same seed, same text: no" in passed.stdout
    cases = list(ET.parse(passed.run_dir / "junit.xml").getroot().iter("testcase"))  # noqa: S314 - our own file
    assert len(cases) == 1
    assert not {child.tag for child in cases[0]} & {"failure", "error", "skipped"}
    assert not left(passed.run_id)

    # The same evidence judged again gives the same verdict; with a sample or the trailer gone it is incomplete.
    assert start("gate", str(passed.run_dir)).end().code == 0
    ledger = passed.run_dir / "cells" / CELL / "ledger.jsonl"
    whole = ledger.read_text().splitlines(keepends=True)
    sample_lines = [index for index, line in enumerate(whole) if '"kind":"sample"' in line]
    for dropped in (sample_lines[0], len(whole) - 1):
        ledger.write_text("".join(whole[:dropped] + whole[dropped + 1 :]))
        judged = start("gate", str(passed.run_dir)).end()
        assert judged.code == 4
        assert "incomplete" in judged.stdout


def test_two_runs_at_the_same_time_do_not_disturb_each_other(start: Start, left: Callable[[str], Left]) -> None:
    both = [start(name=name) for name in ("first", "second")]
    ended = [process.end() for process in both]
    assert [run.code for run in ended] == [0, 0], ended[0].stderr + ended[1].stderr
    assert ended[0].run_id != ended[1].run_id
    assert not any(left(run.run_id) for run in ended)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"FAMILY": "nope"}, ["FAMILY", "nope", "qwen3"]),
        ({"SAMPLES": "0"}, ["SAMPLES", "0"]),
        ({"LANES": "v1-anthropic"}, ["Anthropic verification requires session server v2"]),
        (
            {"FAMILY": "nope", "SAMPLES": "0", "LANES": "v1-anthropic", "SEED": "x"},
            ["FAMILY", "SAMPLES", "Anthropic verification requires session server v2", "SEED"],
        ),
    ],
    ids=["family", "samples", "lane", "all at once"],
)
def test_bad_values_are_all_named_and_nothing_is_started(
    start: Start, variables: dict[str, str], named: list[str]
) -> None:
    ended = start(**variables).end(60)
    assert ended.code == 2
    assert all(text in ended.stderr for text in named), ended.stderr
    assert not any(ended.artifacts.iterdir())


def test_a_malformed_families_file_is_refused_with_every_problem(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "families.toml"
    path.write_text('schema_version = 1\n[family.qwen3]\nmodel = 3\nunknown_field = "x"\n')
    ended = start(FAMILIES_FILE=str(path)).end(60)
    assert ended.code == 2
    assert "unknown_field" in ended.stderr
    assert "model" in ended.stderr
    assert not any(ended.artifacts.iterdir())
