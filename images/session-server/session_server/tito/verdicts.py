"""The server's own comparison of a turn with its canonical render, computed once per turn.

A turn never changes, so its verdict does not either. A comparison that cannot be made gives no verdict at all: absence
means "not compared", never "no difference".
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from session_server.core.turn import Turn
from session_server.observe.logs import logger
from session_server.tito.codec import Codec


class Verdicts:
    """`tito_session_mismatch` by turn."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._known: WeakKeyDictionary[Turn, list[dict[str, Any]]] = WeakKeyDictionary()

    def of(self, turn: Turn) -> list[dict[str, Any]] | None:
        """Mismatches of the path that ends in `turn`; None when the comparison failed (the reason is logged)."""
        if turn in self._known:
            return self._known[turn]
        try:
            verdict = self._codec.mismatches(turn.messages(), turn.token_ids, tools=turn.record.tools)
        except Exception as error:
            logger().error("comparison failed", seq=turn.seq, reason=f"{type(error).__name__}: {error}")
            return None
        self._known[turn] = verdict
        return verdict
