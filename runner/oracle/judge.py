"""All parts of the oracle over one session.

It runs every part, also after one has found something: the person who reads the report needs the whole picture.
"""

from __future__ import annotations

from runner.agents.records import SessionView
from runner.agents.transcript import Transcript
from runner.base.terms import ServerVersion, WireFormat
from runner.oracle.canonical import canonical
from runner.oracle.counts import check_accumulated, check_budget, check_client_counts, check_counts
from runner.oracle.differential import check_counterpart
from runner.oracle.finding import Finding, hard
from runner.oracle.history import check_messages, check_path
from runner.oracle.kept import check_fresh, check_kept
from runner.oracle.match import Matcher as MessageMatcher
from runner.oracle.match import loose_tool_call, strict
from runner.oracle.measure import Measure
from runner.oracle.mismatch import check_mismatch
from runner.oracle.prefix import check_prefix
from runner.oracle.render import check_render
from runner.oracle.roots import check_roots
from runner.oracle.text import check_text
from runner.oracle.tree import check_tree
from runner.plan.model import Matcher, PlannedCell

_MATCHERS: dict[Matcher, MessageMatcher] = {Matcher.STRICT: strict, Matcher.LOOSE_TOOL_CALL: loose_tool_call}


def judge(view: SessionView, transcript: Transcript, cell: PlannedCell, measure: Measure) -> list[Finding]:
    """Everything that is wrong with a session; empty when nothing is.

    What the family promises (trimmed tokens, matcher) comes from the planned `cell`; the server's own figures are only
    compared with it.
    """
    lane, max_trim, tokens = cell.lane, cell.max_trim_tokens, measure.tokens
    path = transcript.path
    records = view.records
    numbers = {turn.response_id: turn.turn for turn in transcript.turns}
    turns = [numbers.get(record.response.id, position + 1) for position, record in enumerate(records)]
    findings: list[Finding] = []
    if view.session_id != transcript.session_id:
        message = f"the snapshot is of session {view.session_id!r}, the agent drove {transcript.session_id!r}"
        findings.append(hard("history", "session", message))
    if view.metadata.max_trim_tokens != max_trim:
        message = f"the server trims {view.metadata.max_trim_tokens} tokens at a join, the family {max_trim}"
        findings.append(hard("prefix", "max_trim_tokens", message))
    findings += check_path(records, path)
    findings += check_fresh(transcript)
    findings += check_kept(transcript, tokens)
    findings += check_prefix(records, turns, max_trim, tokens)
    findings += check_counts(records, turns)
    findings += check_budget(records, turns, tokens)
    findings += check_accumulated(records, view.metadata, turns, tokens)
    findings += check_text(records, turns, tokens)
    findings += check_mismatch(view.metadata)
    findings += check_render(records, turns, transcript.tools, measure.canon, tokens)
    if [record.response.id for record in records] == [turn.response_id for turn in path]:
        findings += check_client_counts(records, path, tokens)
        anthropic = lane.wire is WireFormat.ANTHROPIC
        sent = [canonical(turn) for turn in path] if anthropic else path
        findings += check_messages(records, sent, _MATCHERS[cell.message_matcher], parts_as_text=anthropic)
    if lane.server is ServerVersion.V2:
        findings += check_tree(view.metadata.tree, records, transcript)
        findings += check_roots(transcript)
    findings += check_counterpart(view, transcript, cell, tokens)
    return findings
