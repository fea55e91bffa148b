"""All parts of the oracle over one session.

It runs every part, also after one has found something: the person who reads the report needs the whole picture.
"""

from __future__ import annotations

from runner.agents.records import SessionView
from runner.agents.transcript import Transcript
from runner.base.terms import ServerVersion
from runner.oracle.along import check_along
from runner.oracle.differential import check_counterpart
from runner.oracle.finding import Finding, hard
from runner.oracle.forest import check_forest
from runner.oracle.history import check_path
from runner.oracle.kept import check_fresh, check_kept
from runner.oracle.measure import Measure
from runner.oracle.roots import check_roots
from runner.oracle.tree import check_tree
from runner.plan.model import PlannedCell


def judge(view: SessionView, transcript: Transcript, cell: PlannedCell, measure: Measure) -> list[Finding]:
    """Everything that is wrong with a session; empty when nothing is.

    What the family promises (trimmed tokens, matcher) comes from the planned `cell`; the server's own figures are only
    compared with it.
    """
    max_trim, tokens, path, records = cell.max_trim_tokens, measure.tokens, transcript.path, view.records
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
    findings += check_along(records, path, transcript, cell, measure, view.metadata)
    if cell.lane.server is ServerVersion.V2:
        findings += check_tree(view.metadata.tree, records, transcript)
        findings += check_roots(transcript)
        others = check_forest(view, transcript, cell, measure)
        findings += [finding for finding in others if finding not in findings]  # conversations may begin alike
    findings += check_counterpart(view, transcript, cell, tokens)
    return findings
