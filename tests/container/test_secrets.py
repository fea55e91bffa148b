"""A secret that a container prints, Compose is given and a model says is in no file of a run; no evidence is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.container.conftest import Left, Start
from tests.container.test_ends import CELL, Faulty

TOKEN = "hf_Sentinel/of+this=test&<0123456789>"
SAID = "sunny in Beijing at 22 degrees"
"""What the scripted model says; as the value of a secret variable it must not be in the evidence of the turns."""

OVERRIDE = """
services:
  engine:
    environment:
      LEAKED: ${HF_TOKEN}
    command: ["sh", "-c", "echo the token is $$LEAKED; exec /opt/scripted/bin/python -m scripted_engine"]
"""


def test_no_file_and_no_line_of_a_run_holds_a_secret(
    start: Start, faulty: Faulty, left: Callable[[str], Left], tmp_path: Path
) -> None:
    override = tmp_path / "override.yaml"
    override.write_text(OVERRIDE)
    # The engine dies, so that its log's end goes into ledger, verdict and every report.
    image = faulty([{"kind": "die", "turn": 4}])
    variables = {"HF_TOKEN": TOKEN, "MODEL_SECRET": SAID, "COMPOSE_OVERRIDE": str(override)}
    ended = start(ENGINE_IMAGE=image, SAMPLES="1", **variables).end()
    assert ended.code == 3, ended.stdout + ended.stderr
    assert ended.cell(CELL)["outcome"] == "infra", "the ledgers are sound"

    files = [path for path in ended.run_dir.rglob("*") if path.is_file()]
    spelled = {TOKEN, TOKEN.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"), SAID}
    found = [(path.name, text) for path in files for text in spelled if text.encode() in path.read_bytes()]
    assert found == []
    assert not [text for text in spelled if text in ended.stdout + ended.stderr]

    redacted = {str(path.relative_to(ended.run_dir)) for path in files if b"[redacted]" in path.read_bytes()}
    assert redacted >= {
        "logs/qwen3/engine.log",
        "leases/qwen3/compose.resolved.yaml",
        "leases/qwen3/ledger.jsonl",
        f"cells/{CELL}/sessions/0.json",
        "verdict.json",
        "report.html",
        "junit.xml",
    }, "that there was something to take out"
    assert "the token is [redacted]" in (ended.run_dir / "logs/qwen3/engine.log").read_text()
    assert start("gate", str(ended.run_dir)).end().code == 3
    assert not left(ended.run_id)
