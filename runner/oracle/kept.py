"""What the server showed in between: replies that a later rollback took off the line, and replies that nobody read.

The snapshot at the end holds only what survived. A script that looked at the session right after a turn has put the
last record into its transcript, and here that record is held against what the client was told: a 200 that is not
recorded, a count that is another, a cut reply that is reported as finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from runner.agents.transcript import Kept, Transcript, TurnLog, Unseen
from runner.oracle.canonical import FINISH
from runner.oracle.finding import Finding, hard
from runner.oracle.tokens import Tokens

CHECK: Final = "kept"
CUT: Final = "length"


def check_kept(transcript: Transcript, tokens: Tokens) -> list[Finding]:
    """Every turn and every unread reply after which the script looked at the session."""
    findings: list[Finding] = []
    for turn in transcript.turns:
        if turn.kept is not None:
            findings += _turn(turn, turn.kept, tokens)
    for unseen in transcript.unseen:
        if unseen.recorded and unseen.kept is not None:
            findings += _unseen(unseen, unseen.kept, transcript.turns)
    return findings


def check_fresh(transcript: Transcript) -> list[Finding]:
    """No reply comes twice: equal bodies are sampled afresh, and a lost reply is not served from memory."""
    counts: Counter[str] = Counter()
    for turn in transcript.turns:
        counts.update([turn.response_id, *(rejected.response_id for rejected in turn.rejected)])
    lost = [lost_reply(unseen, transcript.turns) for unseen in transcript.unseen]
    counts.update(name for name in lost if name is not None)
    first = {turn.response_id: turn for turn in reversed(transcript.turns)}
    return [
        hard(
            CHECK,
            "repeated",
            f"reply {name!r} was given {count} times, first to turn {first[name].turn}: equal requests are to be "
            f"sampled afresh, never answered from memory"
            if name in first
            else f"reply {name!r} was given {count} times: equal requests are to be sampled afresh",
            turn=first[name].turn if name in first else None,
        )
        for name, count in counts.items()
        if count > 1
    ]


def lost_reply(unseen: Unseen, turns: Sequence[TurnLog]) -> str | None:
    """The id of a reply that was begun and not read, where the script found it among the records; else None."""
    if not unseen.recorded or unseen.kept is None:
        return None
    seen = {turn.response_id for turn in turns if turn.turn < unseen.turn}
    name = unseen.kept.response_id
    return None if name in seen else name


def _turn(turn: TurnLog, kept: Kept, tokens: Tokens) -> list[Finding]:
    if kept.response_id != turn.response_id:
        message = (
            f"turn {turn.turn}: answered 200 with reply {turn.response_id!r}, but right after it the last of "
            f"{kept.records} records is {kept.response_id!r}: the reply is not recorded"
        )
        return [hard(CHECK, "unrecorded", message, turn=turn.turn)]
    findings: list[Finding] = []
    count = len(kept.output_ids)
    if turn.completion_tokens != count:
        message = f"turn {turn.turn}: the client was told {turn.completion_tokens} completion tokens, {count} are kept"
        findings.append(hard(CHECK, "client_usage", message, turn=turn.turn))
    told = FINISH.get(turn.finish_reason, turn.finish_reason)
    if told != kept.finish_reason:
        message = (
            f"turn {turn.turn}: the client was told finish_reason {turn.finish_reason!r}, the record has "
            f"{kept.finish_reason!r}"
        )
        findings.append(hard(CHECK, "finish_reason", message, turn=turn.turn, role="assistant"))
    if turn.budget is not None:
        findings += _budget(turn, turn.budget, kept, told, tokens)
    return findings


def _budget(turn: TurnLog, budget: int, kept: Kept, told: str, tokens: Tokens) -> list[Finding]:
    """A reply with the whole budget in it was cut, unless its last token is one that ends a turn."""
    count = len(kept.output_ids)
    if count > budget:
        message = f"turn {turn.turn}: {count} sampled ids, although the request allowed {budget}"
        return [hard(CHECK, "over_budget", message, turn=turn.turn, role="assistant")]
    ended = bool(kept.output_ids) and kept.output_ids[-1] in tokens.special_ids
    if count == budget and told != CUT and not ended:
        message = (
            f"turn {turn.turn}: {count} sampled ids are the whole budget and do not end the turn, yet the client was "
            f"told finish_reason {turn.finish_reason!r}: a cut reply is reported as finished"
        )
        return [hard(CHECK, "budget", message, turn=turn.turn, role="assistant")]
    if count < budget and told == CUT:
        message = f"turn {turn.turn}: reported as cut after {count} of {budget} tokens"
        return [hard(CHECK, "early_cut", message, turn=turn.turn, role="assistant")]
    return []


def _unseen(unseen: Unseen, kept: Kept, turns: Sequence[TurnLog]) -> list[Finding]:
    if lost_reply(unseen, turns) is not None:
        return []
    message = (
        f"turn {unseen.turn}: the server began to answer 200, the client closed the connection, and no record of that "
        f"reply is there: the last of {kept.records} records is {kept.response_id!r}"
    )
    return [hard(CHECK, "unrecorded", message, turn=unseen.turn)]
