"""One recorded cell again: the same images, seeds and settings, and nothing that was built or set since."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.container.conftest import Ended, Left, Process, Start

CELL = "qwen3/v2-openai/baseline"


def _again(start: Start, run: Path, cell: str = CELL, **variables: str) -> Process:
    # Only the record counts: what the other tests set for every run is unset.
    unset = {"ENGINE_IMAGE": "", "LANES": ""}
    return start("repro", str(run), cell, name="again", **{**unset, **variables})


def _plan(ended: Ended) -> Any:
    return json.loads((ended.run_dir / "plan.json").read_text())


def test_a_recorded_cell_runs_again_alone_with_everything_it_had(start: Start, left: Callable[[str], Left]) -> None:
    first = start(LANES="v1-openai,v2-openai", SEED="41", CYCLES="1").end()
    assert first.code == 0, first.stderr
    second = _again(start, first.run_dir).end()
    assert second.code == 0, second.stderr
    assert second.run_id != first.run_id
    assert [cell["cell"] for cell in second.verdict()["cells"]] == [CELL]
    assert second.cell(CELL)["outcome"] == "pass"

    then, now = _plan(first), _plan(second)
    assert now["cells"] == [cell for cell in then["cells"] if cell["lane"] == "v2-openai"]
    assert now["leases"] == then["leases"]
    assert now["versions"]["repeats"] == f"{first.run_id} {CELL}"
    ids = [
        {kind: image["id"] for kind, image in json.loads((run / "environment.json").read_text())["images"].items()}
        for run in (first.run_dir, second.run_dir)
    ]
    assert ids[0] == ids[1]
    assert not left(second.run_id)

    # An image that is gone is named with its id, before anything is made.
    facts = json.loads((first.run_dir / "environment.json").read_text())
    facts["images"]["session"]["id"] = "sha256:" + "0" * 64
    (first.run_dir / "environment.json").write_text(json.dumps(facts))
    missing = start("repro", str(first.run_dir), CELL, name="missing", ENGINE_IMAGE="", LANES="").end()
    assert missing.code == 3
    assert "session: " + facts["images"]["session"]["reference"] in missing.stderr
    assert "the name now means sha256:" in missing.stderr
    assert "docker save" in missing.stderr
    assert not any(missing.artifacts.iterdir())


def test_a_variable_that_contradicts_the_record_is_refused(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "artifacts"
    ended = start("repro", str(run), CELL, ENGINE_IMAGE="", LANES="").end(60)
    assert ended.code == 2
    assert "is not the directory of a run" in ended.stderr
