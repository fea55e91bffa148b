"""The workflows of the repository do what they say: real make targets, and as many shards as are merged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_target_that_a_workflow_makes_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = [target for step in steps(load(path)) for target in re.findall(r"make ([a-z0-9-]+)", step.get("run", ""))]
    assert made
    assert set(made) <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_may_read_only_and_ends_by_itself(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())


def test_the_shards_of_the_matrix_are_all_of_them_and_are_merged_whatever_became_of_them() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "matrix.yaml")
    shard, verdict = workflow["jobs"]["shard"], workflow["jobs"]["verdict"]
    assert shard["strategy"]["matrix"]["shard"] == list(range(1, workflow["env"]["SHARDS"] + 1))
    assert shard["strategy"]["fail-fast"] is False
    kept = next(step for step in shard["steps"] if step.get("uses", "").startswith("actions/upload-artifact"))
    taken = next(step for step in verdict["steps"] if step.get("uses", "").startswith("actions/download-artifact"))
    assert kept["if"] == verdict["if"] == "always()"
    assert kept["with"]["name"].startswith(taken["with"]["pattern"].removesuffix("*"))
    merge = next(step["run"] for step in verdict["steps"] if "make merge" in step.get("run", ""))
    assert f"{taken['with']['path']}/*/*" in merge, "one directory per artifact, and in it one per run"
