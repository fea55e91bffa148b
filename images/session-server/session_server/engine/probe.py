"""Is the engine really able to generate? Asked with one token, since health endpoints say yes too early."""

from __future__ import annotations

import time
from dataclasses import dataclass

import orjson

from session_server.core.errors import EngineError
from session_server.core.tokens import TokenIds
from session_server.engine.client import EngineClient

_INFO_PATHS = (("/server_info", "/model_info"), ("/get_server_info", "/get_model_info"))
"""Where SGLang says who it is, newest names first."""


@dataclass(frozen=True, slots=True)
class Ready:
    """An engine that generated a token; `version` and `model` are None where it does not say."""

    version: str | None
    model: str | None
    seconds: float


async def probe(engine: EngineClient, *, prompt: TokenIds, timeout_seconds: float) -> Ready:
    """Generate one token behind `prompt`.

    Raises:
        EngineError: the engine did not, with what it answered instead.
    """
    started = time.perf_counter()
    body = orjson.dumps({"input_ids": prompt.tolist(), "sampling_params": {"max_new_tokens": 1, "temperature": 0}})
    reply = await engine.request(
        "POST",
        "/generate",
        headers={"content-type": "application/json"},
        content=(body,),
        timeout_seconds=timeout_seconds,
    )
    if reply.status != 200:
        raise EngineError(f"a one-token generation was answered with {reply.status}: {_start(reply.body)}")
    answer = _object(reply.body)
    meta = answer.get("meta_info")
    generated = meta.get("completion_tokens") if isinstance(meta, dict) else None
    if not isinstance(generated, int) or generated < 1:
        raise EngineError(f"a one-token generation gave no token: {_start(reply.body)}")
    seconds = round(time.perf_counter() - started, 4)
    version, model = await _identity(engine, timeout_seconds)
    return Ready(version, model, seconds)


async def _identity(engine: EngineClient, timeout_seconds: float) -> tuple[str | None, str | None]:
    version: str | None = None
    model: str | None = None
    for server_path, model_path in _INFO_PATHS:
        server = await engine.request("GET", server_path, timeout_seconds=timeout_seconds)
        if server.status != 200:
            continue
        info = _object(server.body)
        version = _text(info.get("version"))
        model = _text(info.get("model_path"))
        if model is None:
            reply = await engine.request("GET", model_path, timeout_seconds=timeout_seconds)
            model = _text(_object(reply.body).get("model_path"))
        break
    return version, model


def _object(raw: bytes) -> dict[str, object]:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _start(raw: bytes) -> str:
    return raw[:200].decode("utf-8", "replace")
