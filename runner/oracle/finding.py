"""What the oracle reports: plain data, which the lane writes into the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """`hard` fails the cell; `soft` counts against a limit; `note` is reported."""

    HARD = "hard"
    SOFT = "soft"
    NOTE = "note"


@dataclass(frozen=True)
class TokenDiff:
    """The first place where two token sequences differ.

    `expected_ids` and `actual_ids` are the ids within 8 of it, at most 17 each; the texts are decoded from them. An id
    is None where its sequence has ended.
    """

    token_index: int
    expected_id: int | None
    actual_id: int | None
    expected_ids: list[int]
    actual_ids: list[int]
    expected_text: str
    actual_text: str


@dataclass(frozen=True)
class Finding:
    """One violation. `check` is the part of the oracle, `type` what it saw, `turn` the agent's number of the turn."""

    check: str
    type: str
    severity: Severity
    message: str
    turn: int | None = None
    role: str | None = None
    diff: TokenDiff | None = None


def hard(
    check: str,
    type: str,
    message: str,
    *,
    turn: int | None = None,
    role: str | None = None,
    diff: TokenDiff | None = None,
) -> Finding:
    """A finding that fails the cell."""
    return Finding(check, type, Severity.HARD, message, turn, role, diff)
