"""The session document of GET /sessions/{id}: records and metadata.

Record bodies are spliced in as the bytes that went over the wire; nothing is parsed or serialised again.
"""

from __future__ import annotations

from typing import Any

import orjson

from session_server.core.session import Session
from session_server.core.turn import Record, Turn
from session_server.engine.client import CHAT_PATH
from session_server.tito.verdicts import Verdicts


def record_document(record: Record) -> dict[str, Any]:
    """One record, its bodies still bytes."""
    return {
        "timestamp": record.committed_at,
        "request_timestamp": record.requested_at,
        "method": "POST",
        "path": CHAT_PATH,
        "request": orjson.Fragment(record.request),
        "response": orjson.Fragment(record.response),
        "status_code": 200,
    }


def metadata(tip: Turn | None, *, max_trim_tokens: int, verdicts: Verdicts) -> dict[str, Any]:
    """Accumulated ids and the server's comparison for the path that ends in `tip`."""
    document: dict[str, Any] = {
        "accumulated_token_ids": [] if tip is None else tip.token_ids.tolist(),
        "max_trim_tokens": max_trim_tokens,
    }
    if tip is not None:
        verdict = verdicts.of(tip)
        if verdict is not None:
            document["tito_session_mismatch"] = verdict
    return document


def session_document(session: Session, *, max_trim_tokens: int, verdicts: Verdicts) -> bytes:
    """The document for the active path, as compact JSON."""
    turns = session.state.turns
    return orjson.dumps(
        {
            "session_id": session.id,
            "records": [record_document(turn.record) for turn in turns],
            "metadata": metadata(turns[-1] if turns else None, max_trim_tokens=max_trim_tokens, verdicts=verdicts),
        }
    )
