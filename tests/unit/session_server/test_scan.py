"""Lists are found in JSON text where a parser sees them, in one pass."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.wire import scan
from session_server.wire.scan import find_list, list_end
from session_testing.lives import styles, texts, values

objects = st.lists(st.tuples(st.one_of(st.just("messages"), texts), st.one_of(values, st.lists(values, max_size=3))))


def written(pairs: list[tuple[str, Any]], style: dict[str, Any]) -> bytes:
    """An object in which the same key may come twice."""
    members = [
        f"{json.dumps(key)} {'' if style['indent'] is None else '    '}: {json.dumps(value, **style)}"
        for key, value in pairs
    ]
    return ("{" + ",\n".join(members) + "}").encode("utf-8", "surrogatepass")


@given(pairs=objects, style=styles)
def test_the_last_field_of_that_name_is_found_where_it_is_a_list(
    pairs: list[tuple[str, Any]], style: dict[str, Any]
) -> None:
    text = written(pairs, style)
    named = [value for key, value in pairs if key == "messages"]
    found = find_list(text, "messages")
    assert (found is not None) == bool(named and isinstance(named[-1], list))
    if found is not None:
        assert orjson.loads(text[found.start : found.end + 1]) == orjson.loads(json.dumps(named[-1]))
        assert text[found.key :].startswith(b'"messages"')
        behind = text[found.start + 1 :]
        assert list_end(behind) == found.end - found.start - 1


def test_a_text_of_too_many_parts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"a":[1,[2],"x"],"messages":["y"]}'
    assert find_list(text, "messages") is not None
    monkeypatch.setattr(scan, "_MOST", 8)
    assert find_list(text, "messages") is None


def test_every_part_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    plain = scan._marks

    def counted(text: bytes) -> Any:
        nonlocal looked
        for mark in plain(text):
            looked += 1
            yield mark

    monkeypatch.setattr(scan, "_marks", counted)
    text = b'{"messages":[1],' + b",".join(b'"a%d":[[]]' % number for number in range(500)) + b"}"
    assert find_list(text, "messages") is not None
    assert looked == 3 + 500 * 5 + 2
