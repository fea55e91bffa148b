"""A body of the Anthropic dialect that repeats the last one is read as if it were read whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.wire.anthropic.dialect import Anthropic
from session_testing.lives import Life, body, styles, texts, values

TOOL = {"name": "get_weather", "description": "Weather", "input_schema": {"type": "object", "properties": {}}}
FIELDS = {"model": "m", "max_tokens": 9}
USER = {"role": "user", "content": "Weather in Beijing?"}
SAID = {"role": "assistant", "content": [{"type": "text", "text": "It is sunny."}]}

names = texts.filter(bool)
text_blocks = st.fixed_dictionaries({"type": st.just("text"), "text": texts}, optional={"cache_control": values})
blocks = st.one_of(
    text_blocks,
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": texts, "signature": texts}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": names, "name": names, "input": st.dictionaries(texts, values, max_size=2)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_result"), "tool_use_id": names},
        optional={"content": st.one_of(texts, st.lists(text_blocks, max_size=2)), "is_error": st.booleans()},
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["image", "unknown"])}),
)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "user", "assistant", "assistant", "system"]),
        "content": st.one_of(texts, st.lists(blocks, max_size=3)),
    }
)
fields = st.fixed_dictionaries(
    {"max_tokens": st.integers(1, 99)},
    optional={
        "system": st.one_of(texts, st.lists(text_blocks, max_size=2)),
        "stream": st.booleans(),
        "temperature": st.sampled_from([0.0, 0.7]),
        "stop_sequences": st.lists(texts, max_size=2),
        "tools": st.just([TOOL]),
        "tool_choice": st.sampled_from([{"type": "auto"}, {"type": "tool", "name": "get_weather"}]),
        "thinking": st.just({"type": "enabled"}),
        "metadata": values,
    },
)


def fresh(core: str = "v2", *, inline_system: bool = True, chunk: int = 1 << 18) -> Life:
    return Life.fresh(core, chunk=chunk, dialect=Anthropic(inline_system=inline_system))


@pytest.mark.parametrize("inline_system", [True, False])
@pytest.mark.parametrize("core", ["v1", "v2"])
@given(data=st.data())
def test_every_history_is_read_as_if_it_were_read_whole(core: str, inline_system: bool, data: st.DataObject) -> None:
    life = fresh(core, inline_system=inline_system, chunk=data.draw(st.integers(1, 300)))
    style, before, behind = data.draw(styles), {"model": "m"}, data.draw(fields)
    said = data.draw(st.lists(messages, min_size=1, max_size=3))
    for _ in range(data.draw(st.integers(1, 6))):
        life.ask(body(before, said, behind, style))
        step = data.draw(
            st.sampled_from(["append", "append", "append", "same", "roll back", "edit", "fields", "front"])
        )
        if step == "append":
            said = [*said, SAID, *data.draw(st.lists(messages, max_size=2))]
        elif step == "roll back":
            said = said[: data.draw(st.integers(1, len(said)))]
        elif step == "edit":
            said = [*said]
            said[data.draw(st.integers(0, len(said) - 1))] = data.draw(messages)
        elif step == "fields":
            behind = data.draw(fields)
        elif step == "front":
            before = {"model": "m", **data.draw(fields)}


def ask(life: Life, said: list[dict[str, Any]], **more: Any) -> bool:
    """Whether a request is accepted; it must be read the same both ways."""
    return life.ask(body({}, said, {**FIELDS, **more}, {"separators": (",", ":")})) is not None


def test_a_conversation_with_tools_is_read_piece_by_piece() -> None:
    life = fresh()
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "get_weather", "input": {"a": 1}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "Sunny."}]}
    histories = [[USER], [USER, call, result], [USER, call, result, SAID, USER]]
    for said in histories:
        assert ask(life, said, system="Be brief.", tools=[TOOL])
    assert life.short == 2


def test_another_temperature_is_used_and_another_system_text_read_whole() -> None:
    life = fresh()
    assert ask(life, [USER], system="Be brief.")
    assert ask(life, [USER, SAID, USER], system="Be brief.", temperature=0.5)
    assert life.short == 1
    assert ask(life, [USER, SAID, USER, SAID, USER], system="Be long.", temperature=0.5)
    assert life.short == 1


@pytest.mark.parametrize(("inline_system", "short"), [(True, 1), (False, 0)])
def test_a_system_message_that_changes_the_leading_one_is_read_whole(inline_system: bool, short: int) -> None:
    life = fresh(inline_system=inline_system)
    assert ask(life, [USER], system="Be brief.")
    assert ask(life, [USER, SAID, {"role": "system", "content": "Be long."}, USER], system="Be brief.")
    assert life.short == short


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image"},
        {"type": "unknown"},
        {"type": "tool_result", "tool_use_id": "a", "is_error": True},
        {"type": "tool_use", "id": "a", "name": "b", "input": {}},
        {"type": "text"},
    ],
)
def test_what_is_refused_of_a_whole_body_is_refused_of_what_is_appended(block: dict[str, Any]) -> None:
    life = fresh()
    assert ask(life, [USER])
    assert not ask(life, [USER, SAID, {"role": "user", "content": [block]}])
    assert ask(life, [USER, SAID, USER])
    assert life.short == 1
