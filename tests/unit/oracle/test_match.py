"""When two assistant messages count as the same."""

from __future__ import annotations

from typing import Any

import pytest

from runner.oracle.match import differing, loose_tool_call, strict


def message(arguments: Any = '{"a": 1, "b": "x"}', **more: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call], **more}


def altered(**call: Any) -> dict[str, Any]:
    value = message()
    value["tool_calls"][0].update(call)
    return value


PLAIN = {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize("nothing", [None, "", []])
@pytest.mark.parametrize("key", ["content", "reasoning_content", "tool_calls"])
def test_null_empty_and_absent_are_the_same(key: str, nothing: Any) -> None:
    without = {name: value for name, value in PLAIN.items() if name != key}
    assert strict(without, {**without, key: nothing})
    assert loose_tool_call({**without, key: nothing}, without)


@pytest.mark.parametrize(
    ("other", "fields"),
    [
        ({**PLAIN, "content": "Hi "}, ["content"]),
        ({**PLAIN, "role": "user"}, ["role"]),
        ({**PLAIN, "reasoning_content": "Hm"}, ["reasoning_content"]),
        ({**PLAIN, "tool_calls": message()["tool_calls"]}, ["tool_calls"]),
        ({}, ["role", "content"]),
    ],
)
def test_other_texts_and_roles_differ_for_both(other: dict[str, Any], fields: list[str]) -> None:
    assert not strict(PLAIN, other)
    assert not loose_tool_call(PLAIN, other)
    assert differing(PLAIN, other) == fields


def test_other_keys_and_the_index_of_a_call_take_no_part() -> None:
    assert strict(PLAIN, {**PLAIN, "name": "x", "refusal": None})
    assert strict(message(), altered(index=3))
    assert loose_tool_call(message(), altered(index=3))


@pytest.mark.parametrize(
    "other",
    [
        altered(id="c2"),
        altered(type="custom"),
        altered(extra=1),
        altered(function={"name": "g", "arguments": '{"a": 1, "b": "x"}'}),
        altered(function={"name": "f"}),
        altered(function="f"),
        {**message(), "tool_calls": [*message()["tool_calls"], *message()["tool_calls"]]},
    ],
)
def test_other_calls_differ_for_both(other: dict[str, Any]) -> None:
    assert not strict(message(), other)
    assert not loose_tool_call(message(), other)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"a": 1, "b": "x"}', '{"b":"x","a":1}'),
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": "ü"}', '{"a": "\\u00fc"}'),
        ("", "{}"),
        (None, "{}"),
        ('{"a": [1, {"b": null}]}', '{ "a":[1,{"b":null}] }'),
    ],
)
def test_arguments_are_compared_as_objects_only_by_the_loose_matcher(one: Any, two: Any) -> None:
    assert loose_tool_call(message(one), message(two))
    assert not strict(message(one), message(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"a": 1}', '{"a": "1"}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": null}', "{}"),
        ('{"a": 0.1}', '{"a": 0.10000000000000001}'),
        ('{"a": [1, 2]}', '{"a": [2, 1]}'),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
        ('{"a": NaN}', '{"a":NaN}'),
        ("not json", "not  json"),
        ("[1]", "[1 ]"),
    ],
)
def test_other_values_differ_for_the_loose_matcher_too(one: Any, two: Any) -> None:
    assert not loose_tool_call(message(one), message(two))
