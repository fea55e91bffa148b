"""What the client of the OpenAI route gets: the engine's body, or the same as a stream of one chunk."""

from __future__ import annotations

from typing import Any

import orjson

_LARGE = ("routed_experts", "indexer_topk")


def client_body(body: dict[str, Any], raw: bytes) -> bytes:
    """The reply without the per-token arrays that only the record keeps; `raw` itself when there are none."""
    choices = []
    changed = False
    for choice in body["choices"]:
        meta = choice.get("meta_info") if isinstance(choice, dict) else None
        if isinstance(meta, dict) and any(key in meta for key in _LARGE):
            meta = {key: value for key, value in meta.items() if key not in _LARGE}
            choices.append({**choice, "meta_info": meta})
            changed = True
        else:
            choices.append(choice)
    return orjson.dumps({**body, "choices": choices}) if changed else raw


def stream_body(body: dict[str, Any]) -> bytes:
    """The reply as server-sent events: one chunk and the end mark.

    The generation is complete before the first byte goes out, because only then its tokens are known and recorded.
    """
    choice = body["choices"][0]
    message = choice["message"]
    delta: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if message.get("reasoning_content") is not None:
        delta["reasoning_content"] = message["reasoning_content"]
    if message.get("tool_calls"):
        delta["tool_calls"] = [{**call, "index": index} for index, call in enumerate(message["tool_calls"])]
    chunk: dict[str, Any] = {
        "id": body.get("id"),
        "object": "chat.completion.chunk",
        "created": body.get("created"),
        "model": body.get("model"),
        "choices": [{"index": 0, "delta": delta, "finish_reason": choice.get("finish_reason")}],
    }
    if body.get("usage") is not None:
        chunk["usage"] = body["usage"]
    return b"data: " + orjson.dumps(chunk) + b"\n\ndata: [DONE]\n\n"
