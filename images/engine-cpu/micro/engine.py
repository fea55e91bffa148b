"""A running engine as an evaluation back end, over HTTP with the standard library alone.

It asks as a session server asks: prompt ids, messages beside them for grammar and parsers, log-probabilities back. A
forced tool is sent as strict, because the engine constrains the arguments of strict tools only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from micro import wordings
from micro.backend import LIMIT, Request, Sample
from micro.turns import Call, JsonObject, Reply, Turn

CONCURRENT = 8
SECONDS = 180.0


class EngineError(RuntimeError):
    """The engine did not answer, or answered something that is no sample."""


class Engine:
    """An engine's base URL (`http://host:port`), `model` as it is served. Raises EngineError where the URL is none."""

    def __init__(self, url: str, model: str, temperature: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise EngineError(f"{url!r} is no engine URL: expected http://host:port")
        self._url = url.rstrip("/")
        self._model = model
        self._temperature = temperature

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """One sample per request, in order. Raises EngineError."""
        with ThreadPoolExecutor(CONCURRENT) as pool:
            return list(pool.map(self._one, requests))

    def _one(self, request: Request) -> Sample:
        return read(self._post(self.body(request)))

    def body(self, request: Request) -> JsonObject:
        """The chat completion request."""
        body: JsonObject = {
            "model": self._model,
            "input_ids": list(request.ids),
            "messages": messages(request),
            "temperature": self._temperature,
            "max_tokens": LIMIT,
            "logprobs": True,
            "return_meta_info": True,
            "no_stop_trim": False,
        }
        if request.dialogue.tools:
            body["tools"] = list(request.dialogue.tools)
            body["tool_choice"] = "auto" if request.choice == "auto" else "none"
        if request.choice == "named":
            body["tools"] = [wordings.strict(tool) for tool in request.dialogue.tools]
            body["tool_choice"] = {"type": "function", "function": {"name": "get_weather"}}
        return body

    def _post(self, body: JsonObject) -> Any:
        url = f"{self._url}/v1/chat/completions"
        data = json.dumps(body).encode()
        http = HttpRequest(url, data=data, headers={"Content-Type": "application/json"})  # noqa: S310 - checked above
        try:
            with urlopen(http, timeout=SECONDS) as response:  # noqa: S310 - checked above
                return json.load(response)
        except HTTPError as error:
            raise EngineError(f"{url} answered {error.code}: {error.read()[:500].decode(errors='replace')}") from error
        except (URLError, TimeoutError, ValueError) as error:
            raise EngineError(f"{url} gave no answer: {error}; is the engine up and ready?") from error


def messages(request: Request) -> list[Any]:
    """The dialogue as OpenAI messages."""
    result: list[Any] = []
    for message in request.dialogue.messages:
        if not isinstance(message, Turn):
            result.append(message)
            continue
        plain: dict[str, Any] = {"role": "assistant", "content": message.content}
        if message.thinks:
            plain["reasoning_content"] = message.thought
        if message.calls:
            plain["tool_calls"] = [
                {
                    "id": f"call_{len(result)}_{index}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for index, call in enumerate(message.calls)
            ]
        result.append(plain)
    return result


def read(answer: Any) -> Sample:
    """The sample in a chat completion, as the engine's own parsers took it apart. Raises EngineError."""
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        ids = [int(entry[1]) for entry in choice["meta_info"]["output_token_logprobs"]]
        finish = choice["finish_reason"]
        calls, problems = [], []
        for item in message.get("tool_calls") or []:
            arguments = json.loads(item["function"]["arguments"])
            if not isinstance(arguments, dict):
                problems.append(f"arguments are no object: {arguments!r}")
                arguments = {}
            calls.append(Call(item["function"]["name"], arguments))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise EngineError(f"no sample in the engine's answer ({error!r}): {json.dumps(answer)[:500]}") from error
    content = (message.get("content") or "").strip()
    if "<tool_call>" in content or "think>" in content:
        problems.append("a tag in the text")
    reply = Reply((message.get("reasoning_content") or "").strip(), content, tuple(calls), tuple(problems))
    return Sample(ids, finish in ("stop", "tool_calls"), reply)
