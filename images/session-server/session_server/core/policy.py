"""Rules that both state machines apply: which roles may follow a generation, and what may not be extended."""

from __future__ import annotations

from session_server.core.errors import ConflictError, InvalidError, TokenizationError
from session_server.core.tokens import Snapshot, begins_with, common_length
from session_server.core.turn import Position, Turn


def refuse_truncated(parent: Turn) -> None:
    """Refuse to extend a generation that was cut.

    Raises:
        ConflictError: `parent` ended with a finish reason that leaves its turn open.
    """
    if parent.truncated:
        raise ConflictError(
            "truncated generation cannot be extended: the matched node ended with "
            f"finish_reason={parent.finish_reason!r} and truncation closes that path for good; "
            "branch before the cut instead"
        )


def refuse_roles(position: Position, allowed: frozenset[str]) -> None:
    """Refuse a tail with a role that the family's template cannot append.

    Raises:
        InvalidError: naming the first such message by its index in the request.
    """
    if position.parent is None:
        return
    for offset, message in enumerate(position.tail):
        role = message["role"]
        if role not in allowed:
            raise InvalidError(
                f"appended message at index {position.tail_start + offset} has role={role!r}, "
                f"allowed={sorted(allowed)}; the selected TITO fixed template does not support appending this role"
            )


def check_prefix(parent: Turn | None, tokens: Snapshot, max_trim_tokens: int) -> None:
    """Refuse to record tokens that do not continue the stored ones.

    Raises:
        TokenizationError: the stored ids, less `max_trim_tokens` at the end, do not start `tokens`.
    """
    if parent is None:
        return
    stored = parent.tokens
    if tokens.base is stored and tokens.kept >= len(stored) - max_trim_tokens:
        # the stored ids themselves, not a copy that would have to be compared
        return
    before, now = stored.ids(), tokens.ids()
    if begins_with(now, before, without_last=max_trim_tokens):
        return
    index = common_length(before, now)
    raise TokenizationError(
        f"pretokenized prefix mismatch: stored and new tokens differ at index {index} "
        f"(stored {before[index] if index < len(before) else None} of {len(before)} tokens, "
        f"new {now[index] if index < len(now) else None} of {len(now)}, "
        f"{max_trim_tokens} trailing tokens may differ)"
    )
