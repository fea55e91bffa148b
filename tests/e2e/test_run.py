"""The main job on real SGLang."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import run_module


def test_every_lane_of_qwen3_that_is_built_passes_token_by_token(images: dict[str, str], tmp_path: Path) -> None:
    done = run_module("runner", "e2e", ARTIFACTS=str(tmp_path), FAMILY="qwen3", LANES="all", SAMPLES="2")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.iterdir()
    verdict = json.loads((run / "verdict.json").read_text())
    cells = {cell["cell"]: cell for cell in verdict["cells"]}
    assert set(cells) == {f"qwen3/{lane}/baseline" for lane in ("v1-openai", "v2-openai", "v2-anthropic")}
    for cell in cells.values():
        assert cell["outcome"] == "pass", cell["reasons"]
    first = cells["qwen3/v1-openai/baseline"]
    assert first["outcome"] == "pass"
    assert first["completed_samples"] == 2
    assert first["completion_tokens"] > 200
    for sample in first["samples"]:
        wanted = {"append_tool", "rollback", "append_user", "append_system", "append_assistant"}
        assert wanted <= set(sample["driver_events"])
    engine_log = (run / "logs" / "qwen3" / "engine.log").read_text()
    assert "sglang" in engine_log.lower()
