"""Scoring replay: the engine reads the accumulated ids and says what it would have given each of them.

It is the strongest proof that the recorded tokens are the sampled ones. Ids are always compared; log-probs only where
both are of the same distribution: recorded ones are scaled by the sampling temperature and masked by a forced call's
grammar, the replay's are at temperature 1 and unmasked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runner.agents.records import OutputToken, Record
from runner.agents.transcript import TurnLog
from runner.oracle.finding import Finding, Severity, hard
from runner.oracle.tokens import Tokens, first_difference

CHECK: Final = "scoring"
TOLERANCE: Final = 1e-4
"""Largest difference of a log-prob; measured are 2e-5 on the CPU in float32."""
_FORCED: Final = "forced_tool"


def scored_range(records: Sequence[Record]) -> tuple[list[int], int]:
    """What is sent to be scored: the accumulated ids (`[n_tokens]`), and the position from which on they are.

    The position is the last token of the first prompt: its own log-prob is not given, those after it are.
    """
    last = records[-1]
    return [*last.input_ids, *last.output_ids], len(records[0].input_ids) - 1


def check_scoring(
    records: Sequence[Record],
    path: Sequence[TurnLog],
    scored: Sequence[OutputToken],
    *,
    temperature: float,
    precise: bool,
    tokens: Tokens,
) -> list[Finding]:
    """The engine's scores (`[n_tokens - start]`, see `scored_range`) beside the records.

    `precise` says that this engine computes in float32, for which the tolerance was measured.
    """
    whole, start = scored_range(records)
    ids = [token.token_id for token in scored]
    index = first_difference(whole[start:], ids)
    if index is not None:
        message = f"the engine scored other ids than it was given, from token {start + index} on"
        return [hard(CHECK, "ids", message, diff=tokens.diff(whole[start:], ids, index))]
    if temperature not in (0.0, 1.0) or not precise:
        why = f"sampled at temperature {temperature:g}" if precise else "this engine does not compute in float32"
        return [Finding(CHECK, "ids_only", Severity.NOTE, f"ids are equal; log-probs are not compared: {why}")]
    findings: list[Finding] = []
    for record, turn in zip(records, path, strict=True):
        if turn.action == _FORCED:
            continue
        first = len(record.input_ids) - start
        window = scored[first : first + len(record.output_ids)]
        gaps = [
            abs(told.logprob - replayed.logprob) if told.logprob is not None and replayed.logprob is not None else None
            for told, replayed in zip(record.tokens, window, strict=True)
        ]
        wrong = [position for position, gap in enumerate(gaps) if gap is None or gap > TOLERANCE]
        if wrong:
            at = wrong[0]
            shown = tokens.decode([record.output_ids[at]])
            message = (
                f"turn {turn.turn}: {len(wrong)} of {len(gaps)} log-probs differ by more than {TOLERANCE:g}, first "
                f"that of sampled token {at} ({shown!r}): recorded {record.tokens[at].logprob}, "
                f"scored {window[at].logprob}"
            )
            findings.append(hard(CHECK, "logprobs", message, turn=turn.turn, role="assistant"))
    return findings
