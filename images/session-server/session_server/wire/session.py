"""The session document of GET /sessions/{id}: records and metadata.

Record bodies are spliced in as they went over the wire; nothing is parsed or serialised again.
"""

from __future__ import annotations

from typing import Any

import orjson

from session_server.core.errors import InvalidError
from session_server.core.session import Session, State
from session_server.core.tree import Tree
from session_server.core.turn import Record
from session_server.engine.client import CHAT_PATH
from session_server.tito.verdicts import Verdicts


def record_document(record: Record) -> dict[str, Any]:
    """One record, its bodies still bytes."""
    return {
        "timestamp": record.committed_at,
        "request_timestamp": record.requested_at,
        "method": "POST",
        "path": CHAT_PATH,
        "request": orjson.Fragment(record.request.content()),
        "response": orjson.Fragment(record.response),
        "status_code": 200,
    }


def metadata(state: State, *, max_trim_tokens: int, verdicts: Verdicts) -> dict[str, Any]:
    """Accumulated ids and the server's comparison for the active path, and the forest where there is one."""
    tip = state.tip
    document: dict[str, Any] = {
        "accumulated_token_ids": [] if tip is None else tip.token_ids.tolist(),
        "max_trim_tokens": max_trim_tokens,
    }
    verdict = None if tip is None else verdicts.of(tip)
    if verdict is not None:
        document["tito_session_mismatch"] = verdict
    if isinstance(state, Tree):
        document["tree"] = tree_document(state)
    return document


def tree_document(tree: Tree) -> dict[str, Any]:
    """Nodes in the order of commits, and the leaves with their paths."""
    return {
        "nodes": [
            {
                "id": node.seq,
                "parent": None if node.parent is None else node.parent.seq,
                "seq": node.seq,
                "truncated": node.truncated,
                "committed_at": node.record.committed_at,
                "completion_span": [node.completion_start, len(node.tokens)],
                "num_tokens": len(node.tokens),
                "response_id": node.response_id,
            }
            for node in tree.nodes
        ],
        "leaves": [
            {"node_id": leaf.seq, "path_node_ids": [node.seq for node in leaf.path()]} for leaf in tree.leaves()
        ],
    }


def session_document(session: Session, *, every_node: bool, max_trim_tokens: int, verdicts: Verdicts) -> bytes:
    """The document as compact JSON: records of the active path, or of every node with the node's id in each.

    Raises:
        InvalidError: every node is asked for of a session that is no tree.
    """
    state = session.state
    if not every_node:
        records = [record_document(turn.record) for turn in state.turns]
    elif isinstance(state, Tree):
        records = [{"node_id": node.seq, **record_document(node.record)} for node in state.nodes]
    else:
        raise InvalidError("view=tree needs core version v2: a v1 session keeps one line, which the plain view shows")
    document = {
        "session_id": session.id,
        "records": records,
        "metadata": metadata(state, max_trim_tokens=max_trim_tokens, verdicts=verdicts),
    }
    return orjson.dumps(document)
