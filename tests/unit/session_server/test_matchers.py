"""When a replayed message is the stored one."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.core import matchers
from session_server.core.matchers import MatcherError, loose_tool_call, role_content_only, strict
from session_testing.server import SYSTEM, USER


def call(arguments: Any, **fields: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}, **fields}],
    }


@pytest.mark.parametrize("blank", [None, "", []])
def test_blank_values_are_the_same(blank: Any) -> None:
    stored = {"role": "assistant", "content": "x", "reasoning_content": None, "tool_calls": None}
    replayed = {"role": "assistant", "content": "x", "reasoning_content": blank, "tool_calls": blank}
    assert strict(stored, replayed) and loose_tool_call(stored, replayed)


def test_other_fields_are_not_looked_at() -> None:
    assert strict({"role": "tool", "content": "x", "name": "a"}, {"role": "tool", "content": "x", "tool_call_id": "b"})


@pytest.mark.parametrize("field", ["role", "content", "reasoning_content"])
def test_text_fields_are_compared_exactly(field: str) -> None:
    stored = {"role": "assistant", "content": "x", "reasoning_content": "y"}
    assert not strict(stored, {**stored, field: stored[field] + " "})
    assert not loose_tool_call(stored, {**stored, field: stored[field] + " "})
    assert role_content_only(stored, {**stored, field: stored[field] + " "}) == (field == "reasoning_content")


@pytest.mark.parametrize(
    ("left", "right", "strictly", "loosely"),
    [
        ('{"a": 1}', '{"a": 1}', True, True),
        ('{"a": 1}', '{"a":1}', False, True),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', False, True),
        ('{"a": "é"}', '{"a": "\\u00e9"}', False, True),
        ('{"a": 1}', {"a": 1}, False, True),
        ("", "{}", False, True),
        (None, "{}", False, True),
        ('{"a": 1}', '{"a": 1.0}', False, True),
        ('{"a": 1}', '{"a": true}', False, False),
        ('{"a": 1}', '{"a": "1"}', False, False),
        ('{"a": 0.1}', '{"a": 0.10000000000000001}', False, False),
        ('{"a": 1, "a": 2}', '{"a": 2}', False, False),
        ('{"a": NaN}', '{"a": NaN}', True, True),
        ('{"a": NaN}', '{"a":NaN}', False, False),
        ("[1]", "[1]", True, True),
        ("[1]", "[ 1]", False, False),
    ],
)
def test_arguments(left: Any, right: Any, strictly: bool, loosely: bool) -> None:
    assert strict(call(left), call(right)) is strictly
    assert loose_tool_call(call(left), call(right)) is loosely


@pytest.mark.parametrize("matcher", [strict, loose_tool_call])
def test_the_rest_of_a_call_counts_but_its_index_does_not(matcher: Any) -> None:
    assert matcher(call("{}", index=0), call("{}"))
    assert not matcher(call("{}"), call("{}", id="d"))
    assert not matcher(call("{}"), call("{}", type="other"))
    assert not matcher(call("{}"), call("{}", extra=1))
    other = call("{}")
    other["tool_calls"][0]["function"]["name"] = "g"
    assert not matcher(call("{}"), other)
    assert not matcher(call("{}"), {**call("{}"), "tool_calls": call("{}")["tool_calls"] * 2})
    assert not matcher(call("{}"), {"role": "assistant", "content": None})


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))))
def test_an_object_matches_itself_however_it_is_dumped(value: dict[str, Any]) -> None:
    import json

    compact = json.dumps(value, separators=(",", ":"))
    spaced = json.dumps(dict(reversed(value.items())), indent=1, ensure_ascii=False)
    assert loose_tool_call(call(compact), call(spaced))
    assert loose_tool_call(call(compact), call(value))


@given(st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text()), st.lists), st.text())
def test_matchers_never_raise_and_say_bool(content: Any, text: str) -> None:
    left = {"role": "assistant", "content": text, "tool_calls": content}
    right = {"role": "assistant", "content": text, "tool_calls": [text]}
    for matcher in (strict, loose_tool_call, role_content_only):
        assert matcher(left, right) in (True, False)
        assert matcher(left, left) is True


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("nope", "is neither one of loose_tool_call, role_content_only, strict nor a dotted path"),
        ("no.such.module:f", "cannot import 'no.such.module'"),
        ("json:nope", "module 'json' has no 'nope'"),
        ("json:__name__", "is not callable"),
        ("asyncio:sleep", "is asynchronous"),
    ],
)
def test_a_matcher_that_is_none_is_refused_at_start(path: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        matchers.load(path)


@pytest.fixture
def custom(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("my_matchers")
    module.fine = lambda stored, replayed: stored["role"] == replayed["role"]  # type: ignore[attr-defined]
    module.truthy = lambda stored, replayed: 1  # type: ignore[attr-defined]
    module.broken = lambda stored, replayed: stored["nope"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_matchers", module)
    return module


def test_a_matcher_of_ones_own_decides(custom: types.ModuleType) -> None:
    assert matchers.load("my_matchers:fine")({"role": "user"}, {"role": "user", "content": "x"}) is True
    assert matchers.load("my_matchers.fine")({"role": "user"}, {"role": "tool"}) is False


@pytest.mark.parametrize(("name", "error"), [("truthy", "returned int, expected bool"), ("broken", "raised KeyError")])
def test_a_broken_matcher_is_named(custom: types.ModuleType, name: str, error: str) -> None:
    with pytest.raises(MatcherError, match=error):
        matchers.load(f"my_matchers:{name}")({"role": "user"}, {"role": "user"})


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_a_broken_matcher_is_a_500_that_changes_nothing(start, custom: types.ModuleType, version: str) -> None:
    async with start(core_version=version, matcher="my_matchers:broken") as client:
        session = await client.session()
        first = await client.said(session, [SYSTEM, USER])
        before = await client.snapshot(session)
        response = await client.chat(session, [SYSTEM, USER, first, USER])
        assert response.status_code == 500
        assert response.json()["error"].startswith("matcher my_matchers:broken raised KeyError")
        assert await client.snapshot(session) == before


@pytest.mark.anyio
async def test_the_stored_spelling_wins_over_the_replayed_one(start) -> None:
    from session_testing.engine import Say
    from session_testing.server import TOOL

    async with start(core_version="v1", matcher="loose_tool_call") as client:
        session = await client.session()
        client.engine.script = [Say("", calls=[("c", "get_weather", '{"location":"Zürich"}')])]
        first = await client.said(session, [SYSTEM, USER], tools=[TOOL])
        replayed = {**first, "tool_calls": [dict(first["tool_calls"][0])]}
        replayed["tool_calls"][0]["function"] = {"name": "get_weather", "arguments": {"location": "Zürich"}}
        result = {"role": "tool", "tool_call_id": "c", "content": "22"}
        await client.said(session, [SYSTEM, USER, replayed, result], tools=[TOOL])
        one, two = (await client.view(session))["records"]
        output = [e[1] for e in one["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
        whole = one["request"]["input_ids"] + output
        assert two["request"]["input_ids"][: len(whole)] == whole
