"""Prefix continuity: what was prompted and sampled stays, token for token, at the front of the next prompt.

This is the property that a session server exists for. `max_trim_tokens` ids at the end may be cut by the family's join
(a stop token that also opens the next message); nothing else may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runner.agents.records import Record
from runner.oracle.cause import cause_of
from runner.oracle.finding import Finding, hard
from runner.oracle.place import role_at
from runner.oracle.tokens import Tokens, first_difference

CHECK: Final = "prefix"


def check_prefix(records: Sequence[Record], turns: Sequence[int], max_trim: int, tokens: Tokens) -> list[Finding]:
    """One finding for each pair of neighbours on the path that does not continue; its type is the class of cause.

    `turns[i]` is the agent's number of the turn in `records[i]`; `max_trim` counts tokens.
    """
    findings: list[Finding] = []
    for position in range(len(records) - 1):
        before, after = records[position], records[position + 1]
        whole = [*before.input_ids, *before.output_ids]
        expected = whole[: max(0, len(whole) - max_trim)]
        actual = after.input_ids
        index = first_difference(expected, actual[: len(expected)])
        if index is None:
            continue
        owner, role = role_at(records[: position + 1], index, tokens)
        cause = cause_of(before, after, expected, index, role, tokens)
        findings.append(
            hard(
                CHECK,
                cause.value,
                f"the prompt of turn {turns[position + 1]} does not begin with the {len(expected)} tokens of turn "
                f"{turns[position]} (prompt and sampled, less {max_trim}): the first difference is at token {index}, "
                f"which came with the {role} text of turn {turns[owner]} ({cause.value.replace('_', ' ')})",
                turn=turns[position + 1],
                role=role,
                diff=tokens.diff(expected, actual, index),
            )
        )
    return findings
