"""Rules that both state machines apply: which roles may follow a generation, and what may not be extended."""

from __future__ import annotations

from session_server.core.errors import ConflictError, InvalidError, TokenizationError
from session_server.core.tokens import TokenIds, begins_with, common_length
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


def check_prefix(parent: Turn | None, token_ids: TokenIds, max_trim_tokens: int) -> None:
    """Refuse to record tokens that do not continue the stored ones.

    Raises:
        TokenizationError: the stored ids, less `max_trim_tokens` at the end, do not start `token_ids`.
    """
    if parent is None or begins_with(token_ids, parent.token_ids, without_last=max_trim_tokens):
        return
    index = common_length(parent.token_ids, token_ids)
    stored = parent.token_ids[index] if index < len(parent.token_ids) else None
    new = token_ids[index] if index < len(token_ids) else None
    raise TokenizationError(
        f"pretokenized prefix mismatch: stored and new tokens differ at index {index} "
        f"(stored {stored} of {len(parent.token_ids)} tokens, new {new} of {len(token_ids)}, "
        f"{max_trim_tokens} trailing tokens may differ)"
    )
