"""The conversations of a tree that are not the active one: judged token by token where the server shows their records.

What a client left behind is trained on as well, and the plain view of a session does not show it. A script that leaves
a conversation behind asks for every node; how a conversation goes follows from what the agent sent. A server that shows
the active path alone keeps the contract, so that is told and not failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from runner.agents.records import SessionView, read
from runner.agents.transcript import Transcript, TurnLog
from runner.oracle.along import check_along
from runner.oracle.finding import Finding, Severity, hard
from runner.oracle.history import check_path
from runner.oracle.measure import Measure
from runner.oracle.tree import CHECK
from runner.plan.model import PlannedCell

WHAT: Final = "GET /sessions/{id}?view=tree"


def check_forest(view: SessionView, transcript: Transcript, cell: PlannedCell, measure: Measure) -> list[Finding]:
    """Findings over every other conversation; empty where the script did not ask for them.

    Raises VerificationError when what the server showed of them does not follow the contract.
    """
    forest = transcript.forest
    if forest is None:
        return []
    others = others_of(transcript)
    if forest.status != 200:
        return [_not_shown(others, f"{WHAT} answered {forest.status}")]
    shown = read(SessionView, orjson.dumps(forest.body), "records", WHAT)
    if shown.session_id != transcript.session_id:
        message = f"{WHAT} is of session {shown.session_id!r}, the agent drove {transcript.session_id!r}"
        return [hard("history", "session", message)]
    records = {record.response.id: record for record in shown.records}
    if set(records) == {record.response.id for record in view.records}:
        return [_not_shown(others, f"{WHAT} has the records of the active path alone")]
    findings: list[Finding] = []
    for path in others:
        have = [records[turn.response_id] for turn in path if turn.response_id in records]
        findings += check_path(have, path)
        findings += check_along(have, path, transcript, cell, measure)
    return findings


def others_of(transcript: Transcript) -> list[list[TurnLog]]:
    """Every conversation but the last: from its first turn to one that nothing followed."""
    followed = {turn.parent for turn in transcript.turns}
    ends = [turn.turn for turn in transcript.turns[:-1] if turn.turn not in followed]
    return [transcript.path_to(end) for end in ends]


def _not_shown(others: Sequence[Sequence[TurnLog]], why: str) -> Finding:
    said = "; ".join(", ".join(str(turn.turn) for turn in path) for path in others)
    message = f"{why}: the conversation of turns {said} was not judged token by token"
    return Finding(CHECK, "not_shown", Severity.NOTE, message)
