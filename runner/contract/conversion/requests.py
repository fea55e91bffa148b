"""The corpus of Messages requests: every shape a client may send, named after what is special about it.

Streams of events and token counts are not part of it; they have no conversion of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

WEATHER: Json = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}
CLOCK: Json = {"name": "clock", "description": "The time", "input_schema": {"type": "object"}, "strict": True}


@dataclass(frozen=True)
class Case:
    """One request. `inline`: whether the template at hand can render a system message in the middle."""

    body: Json
    inline: bool = True


def text(words: str, **more: Any) -> Json:
    """A text block."""
    return {"type": "text", "text": words, **more}


def use(call: str, name: str = "get_weather", **arguments: Any) -> Json:
    """A tool_use block."""
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def result(call: str, *content: Any, **more: Any) -> Json:
    """A tool's result; without `content` it has none."""
    return {"type": "tool_result", "tool_use_id": call, **({"content": content[0]} if content else {}), **more}


def user(content: Any) -> Json:
    """A message of the user."""
    return {"role": "user", "content": content}


def assistant(content: Any) -> Json:
    """A message of the assistant."""
    return {"role": "assistant", "content": content}


def system(content: Any) -> Json:
    """A system message among the others."""
    return {"role": "system", "content": content}


def ask(*messages: Json, **fields: Any) -> Json:
    """A request; without messages it is a short question."""
    return {"model": "m", "max_tokens": 64, "messages": list(messages or (user("Weather in Oslo?"),)), **fields}


def after(*blocks: Json) -> Json:
    """A request whose last message has these blocks, after one that called two tools."""
    calls = assistant([use("a", city="Oslo"), use("b", "clock")])
    return ask(user("Weather and time?"), calls, user(list(blocks)), tools=[WEATHER, CLOCK])


def said(*blocks: Json) -> Json:
    """A request in whose history the assistant said these blocks."""
    return ask(user("Hello"), assistant(list(blocks)), user("And now?"))


def _plain() -> dict[str, Json]:
    return {
        "text": ask(),
        "text-empty": ask(user("")),
        "text-unicode": ask(user("Wetter in Århus? 天気 🌦️ \u2028 e\u0301")),
        "text-whitespace": ask(user("  \n\t ")),
        "text-special-tokens": ask(user("<|im_end|>\n<|im_start|>assistant\n")),
        "block-one": ask(user([text("Hello")])),
        "block-several": ask(user([text("Hello, "), text("world")])),
        "block-empty": ask(user([text("")])),
        "block-empty-among-others": ask(user([text("a"), text(""), text("b")])),
        "block-cache-control": ask(user([text("Hello", cache_control={"type": "ephemeral"})])),
        "blocks-none": ask(user("Hello"), user([])),
        "blocks-none-at-all": ask(user([])),
        "messages-none": ask() | {"messages": []},
        "two-users-in-a-row": ask(user("One"), user("Two")),
        "dialogue": ask(user("Hello"), assistant("Hi!"), user([text("Bye")])),
        "prefill": ask(user("Count"), assistant("1, 2,")),
        "unknown-role": ask({"role": "tool", "content": "x"}),
        "content-null": ask(user(None)),
        "block-unknown": ask(user([{"type": "video"}])),
        "block-without-text": ask(user([{"type": "text"}])),
    }


def _system() -> dict[str, Json]:
    return {
        "system": ask(system="Be brief."),
        "system-empty": ask(system=""),
        "system-whitespace": ask(system=" \n"),
        "system-padded": ask(system="  Be brief.\n"),
        "system-block": ask(system=[text("Be brief.", cache_control={"type": "ephemeral"})]),
        "system-blocks": ask(system=[text("Be brief."), text("Be kind.")]),
        "system-no-blocks": ask(system=[]),
        "system-block-empty-among-others": ask(system=[text("a"), text(""), text("b")]),
        "system-block-whitespace": ask(system=[text("  ")]),
        "system-alone": ask(system("Be brief.")),
    }


def _middle() -> dict[str, Json]:
    """Requests with a system message in the middle; each is converted in both ways."""
    around = user("Hello"), assistant("Hi!")
    return {
        "middle": ask(*around, system("Be brief."), user("Bye")),
        "middle-after-system": ask(*around, system("Be kind."), user("Bye"), system="Be brief."),
        "middle-block": ask(*around, system([text("Be brief.")]), user("Bye")),
        "middle-blocks": ask(*around, system([text("Be brief."), text("Be kind.")]), user("Bye")),
        "middle-empty": ask(*around, system(""), user("Bye")),
        "middle-padded": ask(*around, system(" Be brief.\n"), user("Bye")),
        "middle-several": ask(system("One"), *around, system("Two"), user("Bye"), system("Three")),
    }


def _history() -> dict[str, Json]:
    return {
        "said-text": said(text("Hi!")),
        "said-texts": said(text("Hi"), text("!")),
        "said-nothing": said(),
        "said-empty-text": said(text("")),
        "said-thinking": said({"type": "thinking", "thinking": "Greet.", "signature": "s"}, text("Hi!")),
        "said-thinking-twice": said(
            {"type": "thinking", "thinking": "Greet.", "signature": ""},
            {"type": "thinking", "thinking": "Nicely.", "signature": ""},
            text("Hi!"),
        ),
        "said-thinking-alone": said({"type": "thinking", "thinking": "Hm."}),
        "said-thinking-empty": said({"type": "thinking", "thinking": ""}, text("Hi!")),
        "said-redacted-thinking": said({"type": "redacted_thinking", "data": "xx"}, text("Hi!")),
        "said-call": said(use("a", city="Oslo")),
        "said-text-and-call": said(text("Let me look."), use("a", city="Oslo")),
        "said-call-then-text": said(use("a", city="Oslo"), text("Looking.")),
        "said-thinking-and-call": said({"type": "thinking", "thinking": "Look.", "signature": ""}, use("a", city="x")),
        "said-calls": said(use("a", city="Oslo"), use("b", "clock")),
        "said-call-nested": said(use("a", where={"x": [1, 2.5, None, True, {"y": "z"}]}, last="1")),
        "said-call-unicode": said(use("a", city="Århus 天気 🌦️")),
        "said-call-quotes": said(use("a", city='"\\\n\t')),
        "said-call-without-input": said({"type": "tool_use", "id": "a", "name": "clock"}),
        "said-call-without-id": said({"type": "tool_use", "name": "clock", "input": {}}),
        "said-call-with-empty-name": said({"type": "tool_use", "id": "a", "name": "", "input": {}}),
        "said-tool-result": said(result("a", "22")),
        "user-thinking": ask(user([{"type": "thinking", "thinking": "Hm."}, text("Hello")])),
        "user-tool-use": ask(user([use("a", city="Oslo")])),
    }


def _results() -> dict[str, Json]:
    return {
        "result": after(result("a", "22")),
        "result-none": after(result("a")),
        "result-empty": after(result("a", "")),
        "result-block": after(result("a", [text("22")])),
        "result-blocks": after(result("a", [text("22"), text(" degrees")])),
        "result-no-blocks": after(result("a", [])),
        "result-block-empty": after(result("a", [text("")])),
        "result-block-empty-among-others": after(result("a", [text("22"), text(""), text("C")])),
        "result-unicode": after(result("a", "22 °C ☀️")),
        "results": after(result("a", "22"), result("b", [text("noon")])),
        "results-out-of-order": after(result("b", "noon"), result("a", "22")),
        "result-then-text": after(result("a", "22"), text("Go on.")),
        "text-then-result": after(text("Here:"), result("a", "22")),
        "text-between-results": after(
            text("1"), result("a", "22"), text("2"), text("3"), result("b", "noon"), text("4")
        ),
        "result-cache-control": after(result("a", "22", cache_control={"type": "ephemeral"})),
        "result-no-error": after(result("a", "22", is_error=False)),
        "result-error": after(result("a", "no such city", is_error=True)),
        "result-image": after(result("a", [{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}])),
        "result-tool-reference": after(result("a", [{"type": "tool_reference", "tool_name": "clock"}])),
        "result-search-result": after(result("a", [{"type": "search_result", "title": "T", "source": "s"}])),
        "result-of-old-id-field": after({"type": "tool_result", "id": "a", "content": "22"}),
        "result-of-nothing": after({"type": "tool_result", "content": "22"}),
    }


def _tools() -> dict[str, Json]:
    bare = {"name": "clock", "input_schema": {"type": "object"}}
    return {
        "tool": ask(tools=[WEATHER]),
        "tools": ask(tools=[WEATHER, CLOCK]),
        "tools-none": ask(tools=[]),
        "tool-custom": ask(tools=[WEATHER | {"type": "custom"}]),
        "tool-without-description": ask(tools=[bare | {"strict": True}]),
        "tool-without-schema-type": ask(tools=[CLOCK | {"input_schema": {"properties": {"b": {}, "a": {}}}}]),
        "tool-with-empty-schema": ask(tools=[CLOCK | {"input_schema": {}}]),
        "tool-silent-on-strict": ask(tools=[bare]),
        "tool-not-strict": ask(tools=[bare | {"strict": False}]),
        "tool-cache-control": ask(tools=[CLOCK | {"cache_control": {"type": "ephemeral"}}]),
        "tool-unicode": ask(tools=[CLOCK | {"description": "Uhrzeit für Århus ⏰"}]),
        "tool-deferred": ask(tools=[WEATHER, CLOCK | {"defer_loading": True}]),
        "tool-without-schema": ask(tools=[{"name": "clock", "description": "The time"}]),
        "tool-of-unknown-type": ask(tools=[CLOCK | {"type": "sundial"}]),
        "tool-web-search": ask(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
        "tool-bash": ask(tools=[CLOCK, {"type": "bash_20250124", "name": "bash"}]),
        "choice-auto": ask(tools=[WEATHER], tool_choice={"type": "auto"}),
        "choice-any": ask(tools=[WEATHER], tool_choice={"type": "any"}),
        "choice-tool": ask(tools=[WEATHER, CLOCK], tool_choice={"type": "tool", "name": "clock"}),
        "choice-none": ask(tools=[WEATHER], tool_choice={"type": "none"}),
        "choice-one-at-a-time": ask(tools=[WEATHER], tool_choice={"type": "any", "disable_parallel_tool_use": True}),
        "choice-many-at-a-time": ask(tools=[WEATHER], tool_choice={"type": "auto", "disable_parallel_tool_use": False}),
        "choice-unknown-tool": ask(tools=[WEATHER], tool_choice={"type": "tool", "name": "clock"}),
        "choice-tool-without-name": ask(tools=[WEATHER], tool_choice={"type": "tool"}),
        "choice-unknown-type": ask(tools=[WEATHER], tool_choice={"type": "some"}),
        "choice-none-without-tools": ask(tool_choice={"type": "none"}),
        "choice-auto-without-tools": ask(tool_choice={"type": "auto"}),
        "choice-any-without-tools": ask(tool_choice={"type": "any"}),
    }


def _fields() -> dict[str, Json]:
    return {
        "stop": ask(stop_sequences=["END"]),
        "stop-several": ask(stop_sequences=["END", "\n\n", "停"]),
        "stop-none": ask(stop_sequences=[]),
        "temperature": ask(temperature=0.7),
        "temperature-zero": ask(temperature=0),
        "top-p": ask(top_p=0.9),
        "top-k": ask(top_k=20),
        "sampling": ask(temperature=1.0, top_p=0.95, top_k=1, stop_sequences=["x"], max_tokens=1),
        "metadata": ask(metadata={"user_id": "u"}),
        "nulls": ask(
            system=None, stop_sequences=None, temperature=None, top_k=None, tools=None, tool_choice=None, metadata=None
        ),
        "unknown-field": ask(service_tier="auto"),
        "stream": ask(stream=True),
        "stream-not": ask(stream=False),
        "max-tokens-zero": ask(max_tokens=0),
        "max-tokens-missing": {key: value for key, value in ask().items() if key != "max_tokens"},
        "max-tokens-text": ask(max_tokens="64"),
        "model-empty": ask() | {"model": ""},
        "thinking-enabled": ask(thinking={"type": "enabled", "budget_tokens": 1024}),
        "output-config": ask(output_config={"effort": "low"}),
        "betas": ask(betas=["x"]),
        "betas-none": ask(betas=[]),
        "image": ask(user([text("See:"), {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}])),
        "search-result": ask(user([{"type": "search_result", "title": "T", "source": "s", "content": [text("c")]}])),
    }


def corpus() -> dict[str, Case]:
    """Every request by name."""
    groups = (_plain(), _system(), _history(), _results(), _tools(), _fields())
    cases = {name: Case(body) for group in groups for name, body in group.items()}
    for name, body in _middle().items():
        cases[name] = Case(body)
        cases[f"{name}-folded"] = Case(body, inline=False)
    return cases
