"""Render parity: the first prompt of a session beside what the engine itself would write for the same messages.

Servers print tool schemas in different ways, so a difference is told and not failed; what it means for the kept tokens
is judged by the re-render.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runner.agents.records import Record
from runner.oracle.finding import Finding, Severity
from runner.oracle.tokens import Tokens, first_difference

CHECK: Final = "parity"


def check_parity(first: Record, rendered: Sequence[int], tokens: Tokens) -> list[Finding]:
    """`rendered` (`[n_tokens]`) is the engine's own render of the first request's messages and tools."""
    index = first_difference(rendered, first.input_ids)
    if index is None:
        return []
    message = (
        f"the first prompt ({len(first.input_ids)} ids) is not what the engine itself would write "
        f"({len(rendered)} ids): the first difference is at token {index}"
    )
    return [
        Finding(CHECK, "first_prompt", Severity.NOTE, message, 1, diff=tokens.diff(rendered, first.input_ids, index))
    ]
