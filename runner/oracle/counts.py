"""Counts agree: ids, log-probs and every place where a number of tokens is told.

A count that is off by one is how a lost or doubled token shows when the text still looks right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from runner.agents.records import Metadata, Record
from runner.agents.transcript import TurnLog
from runner.oracle.finding import Finding, hard
from runner.oracle.place import role_at
from runner.oracle.tokens import Tokens, first_difference

CHECK: Final = "counts"


def check_counts(records: Sequence[Record], turns: Sequence[int]) -> list[Finding]:
    """The numbers inside each record. `turns[i]` is the agent's number of the turn in `records[i]`."""
    findings: list[Finding] = []
    for record, turn in zip(records, turns, strict=True):
        meta, usage = record.response.choices[0].meta_info, record.response.usage
        sampled, prompted = len(record.output_ids), len(record.input_ids)
        probabilities = sum(1 for token in record.tokens if token.logprob is not None and math.isfinite(token.logprob))
        told: list[tuple[str, str, int | None, int]] = [
            ("logprobs", "log-probs", probabilities, sampled),
            ("completion_tokens", "meta_info.completion_tokens", meta.completion_tokens, sampled),
            ("prompt_tokens", "meta_info.prompt_tokens", meta.prompt_tokens, prompted),
            ("completion_tokens", "usage.completion_tokens", usage.completion_tokens if usage else None, sampled),
            ("prompt_tokens", "usage.prompt_tokens", usage.prompt_tokens if usage else None, prompted),
        ]
        for type_, name, value, expected in told:
            if value is not None and value != expected:
                what = "prompt ids" if type_ == "prompt_tokens" else "sampled ids"
                findings.append(
                    hard(CHECK, type_, f"turn {turn}: {name} is {value}, but there are {expected} {what}", turn=turn)
                )
        if usage is None:
            findings.append(hard(CHECK, "usage", f"turn {turn}: the record has no usage", turn=turn))
        if not sampled:
            findings.append(hard(CHECK, "no_output", f"turn {turn}: no sampled ids at all", turn=turn))
    return findings


def check_budget(records: Sequence[Record], turns: Sequence[int], tokens: Tokens) -> list[Finding]:
    """A reply that used its whole budget without ending itself was cut, and must say so.

    A cut tool call that is reported as finished is trained on as if the model had written it so.
    """
    findings: list[Finding] = []
    for record, turn in zip(records, turns, strict=True):
        budget, ids = record.request.max_tokens, record.output_ids
        if budget is None or len(ids) < budget or record.finish_reason == "length" or ids[-1] in tokens.special_ids:
            continue
        message = (
            f"turn {turn}: {len(ids)} sampled ids are the whole budget of {budget} and do not end the turn, yet "
            f"finish_reason is {record.finish_reason!r}, expected 'length'"
        )
        findings.append(hard(CHECK, "budget", message, turn=turn, role="assistant"))
    return findings


def check_accumulated(
    records: Sequence[Record], metadata: Metadata, turns: Sequence[int], tokens: Tokens
) -> list[Finding]:
    """`accumulated_token_ids` is the last prompt and what was sampled after it.

    A difference has the role of the expected token; ids beyond the last expected one belong to nobody.
    """
    if not records:
        return []
    last = records[-1]
    expected = [*last.input_ids, *last.output_ids]
    actual = metadata.accumulated_token_ids
    index = first_difference(expected, actual)
    if index is None:
        return []
    role, where = None, ""
    if index < len(expected):
        owner, role = role_at(records, index, tokens)
        where = f", which came with the {role} text of turn {turns[owner]}"
    return [
        hard(
            CHECK,
            "accumulated",
            f"accumulated_token_ids ({len(actual)} ids) is not the last prompt and its sampled ids ({len(expected)} "
            f"ids): the first difference is at token {index}{where}",
            turn=turns[-1],
            role=role,
            diff=tokens.diff(expected, actual, index),
        )
    ]


def check_client_counts(records: Sequence[Record], path: Sequence[TurnLog], tokens: Tokens) -> list[Finding]:
    """What the client was told is what was recorded: usage, and the ids where the wire carries them."""
    findings: list[Finding] = []
    for record, turn in zip(records, path, strict=False):
        pairs = [
            ("completion tokens", turn.completion_tokens, len(record.output_ids)),
            ("prompt tokens", turn.prompt_tokens, len(record.input_ids)),
        ]
        for name, told, recorded in pairs:
            if told != recorded:
                message = f"turn {turn.turn}: the client was told {told} {name}, the record has {recorded} ids"
                findings.append(hard(CHECK, "client_usage", message, turn=turn.turn))
        if turn.output_ids is None:
            continue
        index = first_difference(record.output_ids, turn.output_ids)
        if index is not None:
            findings.append(
                hard(
                    CHECK,
                    "client_ids",
                    f"turn {turn.turn}: the client was given other ids than recorded, from sampled token {index} on",
                    turn=turn.turn,
                    role="assistant",
                    diff=tokens.diff(record.output_ids, turn.output_ids, index),
                )
            )
    return findings
