"""The server's own word about its tokens: `tito_session_mismatch`.

It is heard, never trusted alone. When the field is absent the server's comparison did not happen, and that is a failure
of the sample, not a pass.
"""

from __future__ import annotations

from typing import Final

from runner.agents.records import Metadata
from runner.oracle.finding import Finding, Severity, hard

CHECK: Final = "server"
ASSISTANT_TEXT: Final = "assistant_text"
HARD_TYPES: Final = frozenset({"special_token_count", "special_token_type", "non_assistant_text"})
_EXCERPT: Final = 300


def check_mismatch(metadata: Metadata) -> list[Finding]:
    """One finding per mismatch that the server reports; `assistant_text` is soft, all else is hard."""
    if metadata.tito_session_mismatch is None:
        return [
            hard(
                CHECK,
                "absent",
                "metadata.tito_session_mismatch is absent: the server did not compare its tokens with a canonical "
                "render (it has no tokens, or comparing raised). Look for the exception in the session server's log",
            )
        ]
    findings: list[Finding] = []
    for mismatch in metadata.tito_session_mismatch:
        soft = mismatch.type == ASSISTANT_TEXT
        known = "" if soft or mismatch.type in HARD_TYPES else " (a type that the contract does not know)"
        text = (
            f"the server reports {mismatch.type}{known} in segment {mismatch.segment_index}: expected "
            f"{(mismatch.expected_text or '')[:_EXCERPT]!r}, has {(mismatch.actual_text or '')[:_EXCERPT]!r} "
            f"{mismatch.detail or ''}"
        )
        severity = Severity.SOFT if soft else Severity.HARD
        findings.append(Finding(CHECK, mismatch.type, severity, text.rstrip()))
    return findings
