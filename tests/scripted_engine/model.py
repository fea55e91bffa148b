"""What a perfect model says: one kind of reply for each kind of last message.

Rules over the messages of the request; how a family writes it is its dialect's part. The same question asked again is
answered in other words, as a sampling engine would.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .dialects import Answer

Message = dict[str, Any]

_CITY = re.compile(r"weather in ([A-Z][\w' -]*?)[?.!]")


_PLACE = re.compile(r'"location": "([^"]*)"')


def answer(messages: list[Message], tools: list[dict[str, Any]], tool_choice: Any, pattern: str = "") -> Answer:
    """The right reply to a conversation. `pattern` is the regex that the engine is held to: calls, one place each."""
    if pattern:
        places = _PLACE.findall(pattern)
        return Answer("all of it", calls=[{"name": "get_weather", "arguments": {"location": city}} for city in places])
    city = _last_city(messages)
    call = {"name": "get_weather", "arguments": {"location": _allowed(tools) or city}}
    if isinstance(tool_choice, dict):
        name = tool_choice.get("function", {}).get("name", "get_weather")
        return Answer("the forced call", calls=[{**call, "name": name}], forced=True)
    if tool_choice == "required":
        return Answer("a required call", calls=[call], forced=True)
    last = messages[-1] if messages else {"role": "user", "content": ""}
    role, content = last.get("role"), _text(last.get("content"))
    can_call = bool(tools) and tool_choice != "none"
    if "<final_answer>" in content and role == "user":
        return Answer("a summary", f"<final_answer>{_summary(messages)}</final_answer>")
    if "No tool call was found" in content and can_call:
        return Answer("the missing call", calls=[call])
    if role == "tool":
        return Answer("the report", _report(city, content))
    if role == "system":
        return Answer("the reminder", "Understood. One question at a time, and short.")
    if role == "user" and _CITY.search(content) and can_call:
        return Answer(f"the weather in {city}", calls=[call])
    return Answer("a polite answer", "How can I help you with the weather?")


def _allowed(tools: list[dict[str, Any]]) -> str | None:
    """The only place that the tool's schema lets a grammar write, if it names any."""
    for tool in tools:
        place = tool.get("function", {}).get("parameters", {}).get("properties", {}).get("location", {})
        if place.get("enum"):
            return str(place["enum"][0])
    return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _last_city(messages: list[Message]) -> str:
    for message in reversed(messages):
        found = _CITY.findall(_text(message.get("content"))) if message.get("role") == "user" else []
        if found:
            return str(found[-1])
    return "Beijing"


def _report(city: str, result: str) -> str:
    try:
        value = json.loads(result)
        return f"It is {value['condition']} in {city} at {value['temperature']} degrees."
    except (ValueError, KeyError, TypeError):
        return f"The weather service is temporarily unavailable for {city}."


def _summary(messages: list[Message]) -> str:
    cities: list[str] = []
    for message in messages:
        if message.get("role") == "user":
            cities += [city for city in _CITY.findall(_text(message.get("content"))) if city not in cities]
    return f"I looked at the weather in {', '.join(cities) or 'no city'}."
