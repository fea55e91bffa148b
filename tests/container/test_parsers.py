"""The scripted engine reads a family's text as SGLang's own parsers do, which are asked in the engine's image."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.scripted_engine.dialects import DIALECTS, Answer
from tests.scripted_engine.dialects.shape import Message

THEIRS = Path(__file__).with_name("parsers") / "theirs.py"
SECONDS = 300
"""SGLang's parsers are imported in about ten seconds on a quiet machine; this only ends a hang."""

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather",
        "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
    },
}
NAMES = {"get_weather"}
OPENS_ITSELF = frozenset({"qwen3", "inkling"})
"""Families whose model opens the thinking; for the others the prompt does, and SGLang is told so by the template."""


def call(location: str, name: str = "get_weather") -> dict[str, Any]:
    return {"name": name, "arguments": {"location": location}}


ANSWERS = {
    "text": Answer("a report", "It is sunny in Beijing at 22 degrees."),
    "nothing": Answer("nothing"),
    "lines": Answer("a summary", "<final_answer>One.\n\nTwo: <b>東京</b> & 🙂</final_answer>"),
    "call": Answer("a call", calls=[call("Beijing")]),
    "text and call": Answer("a call", "I look.", calls=[call("Zürich")]),
    "two calls": Answer("two calls", calls=[call("Beijing"), call("New York")]),
    "no declared tool": Answer("a stranger", "I look.", calls=[call("Beijing", name="get_news")]),
    "forced": Answer("the forced call", calls=[call("Beijing")], forced=True),
}
CUTS = {"half a thought": 0.2, "before the end": 0.9}
"""Parts of the text of a call that are left when the budget ends."""


def cases() -> dict[str, dict[str, Any]]:
    """Family and what is said -> a sampled text with the names of its parsers."""
    made = {}
    for family, dialect in DIALECTS.items():
        texts = {name: dialect.write(said, said.thought(0)) for name, said in ANSWERS.items()}
        whole = texts["call"]
        texts |= {name: whole[: int(len(whole) * part)] for name, part in CUTS.items()}
        for name, text in texts.items():
            for allowed in (True, False):
                made[f"{family}: {name}{'' if allowed else ', calls not allowed'}"] = {
                    "family": family,
                    "text": text,
                    "calls_allowed": allowed,
                    "opened": family not in OPENS_ITSELF,
                    "reasoning_parser": dialect.reasoning_parser,
                    "tool_call_parser": dialect.tool_call_parser,
                }
    return made


def ours(case: dict[str, Any]) -> dict[str, Any]:
    """What the scripted engine makes of the text."""
    message: Message = DIALECTS[case["family"]].parse(case["text"], NAMES, calls_allowed=case["calls_allowed"])
    calls = [made["function"] for made in message.get("tool_calls", [])]
    return {
        "content": message["content"],
        "reasoning": message["reasoning_content"],
        "calls": [[made["name"], json.loads(made["arguments"])] for made in calls],
    }


@pytest.fixture(scope="module")
def theirs(images: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What SGLang makes of all texts: one container without a network."""
    told = {"tools": [TOOL], "cases": list(cases().values())}
    command = ["docker", "run", "--rm", "--interactive", "--network", "none", "--entrypoint", "python3"]
    done = subprocess.run(
        [*command, images["engine-cpu"], "-c", THEIRS.read_text(encoding="utf-8")],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(cases(), json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("family", DIALECTS)
def test_a_familys_text_is_read_as_sglang_reads_it(family: str, theirs: dict[str, dict[str, Any]]) -> None:
    mine = {name: ours(case) for name, case in cases().items() if case["family"] == family}
    assert mine == {name: theirs[name] for name in mine}
