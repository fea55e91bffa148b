"""Runs in the engine's image: what SGLang's own parsers make of the texts on stdin, as JSON on stdout.

The parsers are called as SGLang's chat route calls them: reasoning first, then calls where the request allows them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser


def parsed(case: dict[str, Any], tools: list[Tool]) -> dict[str, Any]:
    """Content, reasoning and calls of one sampled text."""
    opened = case["opened"]
    reasoning, text = ReasoningParser(
        model_type=case["reasoning_parser"], stream_reasoning=False, force_reasoning=opened
    ).parse_non_stream(case["text"])
    calls: list[Any] = []
    parser = FunctionCallParser(tools, case["tool_call_parser"])
    if case["calls_allowed"] and parser.has_tool_call(text or ""):
        text, calls = parser.parse_non_stream(text)
    return {
        "content": text or "",
        "reasoning": reasoning or None,
        "calls": [[call.name, json.loads(call.parameters)] for call in calls],
    }


def main() -> None:
    """One result per case, in order."""
    told = json.load(sys.stdin)
    tools = [Tool(**tool) for tool in told["tools"]]
    json.dump([parsed(case, tools) for case in told["cases"]], sys.stdout)


if __name__ == "__main__":
    main()
