"""An engine that says what the test tells it, in SGLang's words.

It speaks the endpoints that the session server uses, as an ASGI application. Every request it gets is kept. A reply can
be held back until the test lets it go, so that tests wait on conditions and never on time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from session_server.tito.vocabulary import Vocabulary
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@dataclass
class Say:
    """One scripted generation. `text` is what is sampled; None derives it from the message as Qwen3 would write it."""

    content: str = "It is sunny."
    reasoning: str | None = "I look outside."
    calls: Sequence[tuple[str, str, Any]] = ()
    finish: str | None = None
    text: str | None = None
    end: str | None = "<|im_end|>"
    meta: dict[str, Any] = field(default_factory=dict)
    without_meta: tuple[str, ...] = ()
    body: dict[str, Any] = field(default_factory=dict)
    choice: dict[str, Any] = field(default_factory=dict)
    message: dict[str, Any] = field(default_factory=dict)

    def sampled(self) -> str:
        """The sampled text, without its end token."""
        if self.text is not None:
            return self.text
        text = f"<think>\n{self.reasoning or ''}\n</think>\n\n{self.content}"
        for index, (_, name, arguments) in enumerate(self.calls):
            if self.content or index:
                text += "\n"
            written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            text += f'<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>'
        return text

    def reply(self, number: int, input_ids: Sequence[int], vocabulary: Vocabulary) -> dict[str, Any]:
        """The chat completion as SGLang answers it."""
        ids = vocabulary.encode(self.sampled() + (self.end or "")).tolist()
        message: dict[str, Any] = {"role": "assistant", "content": self.content, "tool_calls": None}
        message["reasoning_content"] = self.reasoning or None
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call_id,
                    "index": index,
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                    },
                }
                for index, (call_id, name, arguments) in enumerate(self.calls)
            ]
        meta = {
            "id": f"gen-{number}",
            "prompt_tokens": len(input_ids),
            "completion_tokens": len(ids),
            "cached_tokens": 0,
            "weight_version": "default",
            "e2e_latency": 0.25,
            "output_token_logprobs": [[-0.5 - index / 8, token_id, None] for index, token_id in enumerate(ids)],
            **self.meta,
        }
        for key in self.without_meta:
            meta.pop(key, None)
        finish = self.finish or ("tool_calls" if self.calls else "stop")
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1700000000 + number,
            "model": "scripted",
            "choices": [
                {
                    "index": 0,
                    "message": {**message, **self.message},
                    "logprobs": None,
                    "finish_reason": finish,
                    "matched_stop": None,
                    "meta_info": meta,
                    **self.choice,
                }
            ],
            "usage": {
                "prompt_tokens": len(input_ids),
                "completion_tokens": len(ids),
                "total_tokens": len(input_ids) + len(ids),
            },
            **self.body,
        }


@dataclass
class Raw:
    """A reply that is not a generation: any status, body and headers."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Held:
    """A reply that waits: `arrived` is set when the request is there, `release` lets the answer go."""

    def __init__(self, then: Say | Raw | None = None) -> None:
        self.then = then or Say()
        self.arrived = asyncio.Event()
        self.release = asyncio.Event()
        self.withdrawn = asyncio.Event()


Scripted = Say | Raw | Held


class ScriptedEngine:
    """The engine. `script` is used up one entry per generation; after it `otherwise` answers."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.script: list[Scripted] = []
        self.otherwise: Callable[[dict[str, Any]], Scripted] = lambda request: Say()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.generates = True
        self._number = 0
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/generate", self._generate, methods=["POST"]),
                Route("/server_info", self._server_info),
                Route("/model_info", self._model_info),
                Route("/v1/models", self._models),
                Route("/{path:path}", self._other, methods=["GET", "POST", "PUT", "DELETE"]),
            ]
        )

    async def _chat(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        entry = self.script.pop(0) if self.script else self.otherwise(body)
        self._number += 1
        number = self._number
        if isinstance(entry, Held):
            entry.arrived.set()
            try:
                await entry.release.wait()
            except asyncio.CancelledError:
                entry.withdrawn.set()
                raise
            entry = entry.then
        if isinstance(entry, Raw):
            return Response(entry.body, entry.status, {"content-type": "application/json", **entry.headers})
        reply = entry.reply(number, body["input_ids"], self.vocabulary)
        return Response(orjson.dumps(reply), media_type="application/json")

    async def _generate(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        if not self.generates:
            return Response(b"loading", 503)
        wanted = body["sampling_params"]["max_new_tokens"]
        return Response(orjson.dumps({"text": "x", "meta_info": {"completion_tokens": wanted}}))

    async def _server_info(self, request: Request) -> Response:
        return Response(orjson.dumps({"version": "0.5.23", "model_path": "/models/scripted"}))

    async def _model_info(self, request: Request) -> Response:
        return Response(orjson.dumps({"model_path": "/models/scripted"}))

    async def _models(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        return Response(orjson.dumps({"object": "list", "data": [{"id": "scripted"}]}), media_type="application/json")

    async def _other(self, request: Request) -> Response:
        self.paths.append(f"{request.method} {request.url.path}")
        return Response(b"{}", media_type="application/json")
