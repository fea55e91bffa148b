"""What must hold along one conversation: the tokens of its records, and the records beside what the agent sent.

The path that the server calls active is judged by it, and every other one of which there are records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runner.agents.records import Metadata, Record
from runner.agents.transcript import Transcript, TurnLog
from runner.base.terms import WireFormat
from runner.oracle.canonical import canonical
from runner.oracle.counts import check_accumulated, check_budget, check_client_counts, check_counts
from runner.oracle.finding import Finding
from runner.oracle.history import check_messages
from runner.oracle.match import Matcher as MessageMatcher
from runner.oracle.match import loose_tool_call, strict
from runner.oracle.measure import Measure
from runner.oracle.mismatch import check_mismatch
from runner.oracle.prefix import check_prefix
from runner.oracle.render import check_render, not_rendered
from runner.oracle.text import check_text
from runner.plan.model import Matcher, PlannedCell

_MATCHERS: Final[dict[Matcher, MessageMatcher]] = {
    Matcher.STRICT: strict,
    Matcher.LOOSE_TOOL_CALL: loose_tool_call,
}


def check_along(
    records: Sequence[Record],
    path: Sequence[TurnLog],
    transcript: Transcript,
    cell: PlannedCell,
    measure: Measure,
    metadata: Metadata | None = None,
) -> list[Finding]:
    """All findings over the records of one path; `path` are the turns of the transcript that must be on it.

    `metadata` is the server's word about this path as a whole, None where it says nothing of it.
    """
    tokens = measure.tokens
    numbers = {turn.response_id: turn.turn for turn in transcript.turns}
    turns = [numbers.get(record.response.id, position + 1) for position, record in enumerate(records)]
    findings = check_prefix(records, turns, cell.max_trim_tokens, tokens)
    findings += check_counts(records, turns)
    findings += check_budget(records, turns, tokens)
    if metadata is not None:
        findings += check_accumulated(records, metadata, turns, tokens)
    findings += check_text(records, turns, tokens)
    if metadata is not None:
        findings += check_mismatch(metadata)
    if measure.canon is None:
        findings.append(not_rendered(measure.reason))
    else:
        findings += check_render(records, turns, transcript.tools, measure.canon, tokens)
    if [record.response.id for record in records] == [turn.response_id for turn in path]:
        findings += check_client_counts(records, path, tokens)
        anthropic = cell.lane.wire is WireFormat.ANTHROPIC
        sent = [canonical(turn) for turn in path] if anthropic else path
        findings += check_messages(records, sent, _MATCHERS[cell.message_matcher], parts_as_text=anthropic)
    return findings
