"""The corpus of replies of an engine: what a generation may be, named after what is special about it.

Each is a whole chat completion with the engine's own account of its tokens, as both sides get it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One reply, and the stop sequences of the request that it answers."""

    body: Json
    stops: Sequence[str] = ()


def call(arguments: Any, call_id: str = "call_1", name: str = "get_weather") -> Json:
    """A tool call of a reply."""
    return {"id": call_id, "index": 0, "type": "function", "function": {"name": name, "arguments": arguments}}


def usage(prompt: int = 11, completion: int = 3, cached: int | None = None) -> Json:
    """Counts of tokens."""
    details = None if cached is None else {"cached_tokens": cached}
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**counts, "prompt_tokens_details": details}


def reply(
    content: str | None = "Sunny.", *, finish: str | None = "stop", matched: int | str | None = None, **more: Any
) -> Json:
    """A reply; `more` has fields of the message, and `usage` where it is not the usual one."""
    counts = more.pop("usage", usage())
    message = {"role": "assistant", "content": content, "reasoning_content": None, "tool_calls": None, **more}
    meta = {
        "prompt_tokens": 11,
        "completion_tokens": 3,
        "output_token_logprobs": [[-0.5, 5, None], [-0.1, 6, None], [0.0, 7, None]],
    }
    choice = {"index": 0, "message": message, "finish_reason": finish, "matched_stop": matched, "meta_info": meta}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "qwen3"}
    return {**head, "choices": [choice], "usage": counts}


def calling(*calls: Json, content: str | None = "", **more: Any) -> Json:
    """A reply that calls tools."""
    return reply(content, finish="tool_calls", tool_calls=list(calls), **more)


def _without_usage(body: Json) -> Json:
    return {key: value for key, value in body.items() if key != "usage"}


def _texts() -> dict[str, Json]:
    return {
        "text": reply(),
        "text-empty": reply(""),
        "text-null": reply(None),
        "text-whitespace": reply("\n\n"),
        "text-unicode": reply("Schön ☀️ 晴れ \u2028"),
        "text-like-markup": reply("<tool_call>\n{</tool_call>"),
        "reasoning": reply("Sunny.", reasoning_content="Look outside."),
        "reasoning-alone": reply("", reasoning_content="Look outside."),
        "reasoning-empty": reply("Sunny.", reasoning_content=""),
        "reasoning-unicode": reply("Sunny.", reasoning_content="考える\n"),
    }


def _calls() -> dict[str, Json]:
    return {
        "call": calling(call('{"city": "Oslo"}')),
        "call-after-text": calling(call('{"city": "Oslo"}'), content="Let me look."),
        "call-after-reasoning": calling(call('{"city": "Oslo"}'), reasoning_content="Look."),
        "call-after-both": calling(call('{"city": "Oslo"}'), content="Let me look.", reasoning_content="Look."),
        "call-without-content": calling(call("{}"), content=None),
        "calls": calling(call('{"city": "Oslo"}'), call("{}", "call_2", "clock")),
        "calls-same-tool": calling(call('{"city": "Oslo"}'), call('{"city": "Rome"}', "call_2")),
        "calls-none": reply(tool_calls=[]),
        "call-nested": calling(call('{"b": {"x": [1, 2.5, null, true]}, "a": "1"}')),
        "call-unicode": calling(call('{"city": "\\u00c5rhus 天気"}')),
        "call-repeated-key": calling(call('{"city": "Oslo", "city": "Rome"}')),
        "call-large-number": calling(call('{"n": 123456789012345678901234567890}')),
        "call-spaced": calling(call(' {"city" :"Oslo"}\n')),
        "call-empty-arguments": calling(call("")),
        "call-null-arguments": calling(call(None)),
        "call-broken-json": calling(call('{"city": "Os')),
        "call-broken-second": calling(call("{}"), call("{", "call_2")),
        "call-plain-words": calling(call("Oslo")),
        "call-list": calling(call('["Oslo"]')),
        "call-string": calling(call('"Oslo"')),
        "call-null": calling(call("null")),
        "call-not-a-number": calling(call('{"n": NaN}')),
        "call-object-arguments": calling(call({"city": "Oslo"})),
        "call-cut": reply("", finish="length", tool_calls=[call("{}")]),
        "call-that-stopped": reply("", finish="stop", tool_calls=[call("{}")]),
        "call-without-id": calling(call("{}") | {"id": None}),
        "call-without-name": calling(call("{}") | {"function": {"name": None, "arguments": "{}"}}),
    }


def _ends() -> dict[str, Json]:
    return {
        "end-stop-token": reply(matched=151645),
        "end-length": reply(finish="length"),
        "end-length-empty": reply("", finish="length"),
        "end-content-filter": reply(finish="content_filter"),
        "end-function-call": reply(finish="function_call"),
        "end-abort": reply(finish="abort"),
        "end-unsaid": reply(finish=None),
        "end-unknown": reply(finish="tired"),
        "no-choices": reply() | {"choices": []},
    }


def _counts() -> dict[str, Json]:
    return {
        "usage-cached": reply(usage=usage(cached=8)),
        "usage-cached-all": reply(usage=usage(cached=11)),
        "usage-cached-none": reply(usage=usage(cached=0)),
        "usage-cached-more-than-all": reply(usage=usage(cached=12)),
        "usage-nothing-generated": reply("", usage=usage(completion=0)),
        "usage-null-completion": reply(usage=usage() | {"completion_tokens": None}),
        "usage-missing": _without_usage(reply()),
        "usage-null": reply() | {"usage": None},
        "usage-empty": reply() | {"usage": {}},
    }


def corpus() -> dict[str, Case]:
    """Every reply by name."""
    groups = (_texts(), _calls(), _ends(), _counts())
    cases = {name: Case(body) for group in groups for name, body in group.items()}
    cases["end-stop-sequence"] = Case(reply(matched="END"), stops=["END"])
    cases["end-other-stop-sequence"] = Case(reply(matched="<|im_end|>"), stops=["END"])
    return cases
