"""A body that repeats the last one is read as if it were read whole: the same request, or the same refusal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.core.matchers import strict
from session_server.core.session import Session
from session_server.core.tree import Tree
from session_server.wire import replay
from session_server.wire.openai import parse_chat
from session_server.wire.replay import fields_behind, find_cut
from session_testing.lives import ROLES, Life, body, outcome, styles, texts, values
from session_testing.server import SYSTEM, TOOL, USER

parts = st.lists(texts.map(lambda text: {"type": "text", "text": text}), max_size=2)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(sorted(ROLES)), "content": st.one_of(texts, st.none(), parts)},
    optional={"extra": values, "name": texts},
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "model": texts,
        "stream": st.booleans(),
        "max_tokens": st.integers(1, 99),
        "tools": st.just([TOOL]),
        "stop": st.lists(texts, max_size=2),
        "chat_template_kwargs": st.dictionaries(texts, values, max_size=2),
        "other": values,
        "": values,
    },
)


@pytest.mark.parametrize("core", ["v1", "v2"])
@given(data=st.data())
def test_every_history_is_read_as_if_it_were_read_whole(core: str, data: st.DataObject) -> None:
    life = Life.fresh(core, chunk=data.draw(st.integers(1, 300)))
    style, before, behind = data.draw(styles), data.draw(fields), data.draw(fields)
    said = data.draw(st.lists(messages, min_size=1, max_size=3))
    for _ in range(data.draw(st.integers(1, 6))):
        life.ask(body(before, said, behind, style))
        step = data.draw(st.sampled_from(["append", "append", "same", "roll back", "edit", "fields", "style", "front"]))
        if step == "append":
            said = [*said, {"role": "assistant", "content": "It is sunny."}, *data.draw(st.lists(messages, max_size=2))]
        elif step == "roll back":
            said = said[: data.draw(st.integers(1, len(said)))]
        elif step == "edit":
            said = [*said]
            said[data.draw(st.integers(0, len(said) - 1))] = data.draw(messages)
        elif step == "fields":
            behind = data.draw(fields)
        elif step == "front":
            before = data.draw(fields)
        elif step == "style":
            style = data.draw(styles)


COMPACT = {"separators": (",", ":")}
FIRST = body({"model": "m"}, [SYSTEM, USER], {"tools": [TOOL], "stop": ["a]", "b"], "max_tokens": 9}, COMPACT)
SAID = {"role": "assistant", "content": "It is sunny."}
SECOND = body(
    {"model": "m"}, [SYSTEM, USER, SAID, USER], {"tools": [TOOL], "stop": ["a]", "b"], "max_tokens": 9}, COMPACT
)
SPLICES = [
    *(b",", b"]", b"[", b"}", b"{", b'"', b"\\", b" ", b"\n", b"1", b"null", b"\xff", b"\x00", b"],[", b"]],[["),
    *(b'],"messages":[', b'"messages":[],', b',{"role":"user"}', b'"\\u006dessages":[{"role":"user"}],'),
]


@given(
    at=st.integers(0, len(SECOND)),
    drop=st.integers(0, 3),
    splice=st.sampled_from([b"", *SPLICES]),
    chunk=st.integers(1, 500),
)
def test_broken_bodies_are_refused_in_the_same_words(at: int, drop: int, splice: bytes, chunk: int) -> None:
    life = Life.fresh(chunk=chunk)
    assert life.ask(FIRST) is not None
    life.ask(SECOND[:at] + splice + SECOND[at + drop :])


@pytest.mark.parametrize("splice", SPLICES)
def test_every_place_of_a_splice(splice: bytes) -> None:
    life = Life.fresh()
    assert life.ask(FIRST) is not None
    for at in range(len(FIRST) - 120, len(SECOND) + 1):
        raw = SECOND[:at] + splice + SECOND[at:]
        assert outcome(life.parse, raw) == outcome(parse_chat, raw), raw


def test_a_list_that_is_closed_and_opened_again_is_no_continuation() -> None:
    life = Life.fresh()
    assert life.ask(FIRST) is not None
    assert SECOND.count(b'"},{"') == 3
    start = SECOND.rindex(b'"},{"')
    assert life.ask(SECOND[:start] + b'"}],[{"' + SECOND[start + 5 :]) is None


def test_a_deeper_match_beside_the_turn_before_is_found() -> None:
    life = Life.fresh()
    histories = [[USER], [USER, SAID, USER], [USER, SAID, USER, SAID, USER]]
    for said in (*histories, *histories[:2], [*histories[2], SAID, USER]):
        assert life.ask(body({}, said, {}, COMPACT)) is not None
    tip = life.session.state.tip
    assert tip is not None
    assert [turn.seq for turn in tip.path()] == [0, 1, 2, 5]
    assert life.short == 4


def test_a_conversation_is_read_and_written_piece_by_piece() -> None:
    life = Life.fresh()
    said = [SYSTEM, USER]
    for turn in range(6):
        chat = life.ask(body({}, said, {"model": "m"}, COMPACT))
        assert chat is not None
        assert len(chat.unwritten) == 2
        assert len(chat.written) == turn
        said = [*said, SAID, USER]
    assert life.short == 5
    tip = life.session.state.tip
    assert tip is not None
    assert tip.parent is not None
    before, now = tip.parent.record.request.messages, tip.record.request.messages
    assert all(one is two for one, two in zip(before, now, strict=False))


def test_a_long_history_is_compared_in_a_few_pieces() -> None:
    life = Life.fresh(chunk=100)
    said = [USER]
    for _ in range(100):
        chat = life.ask(body({}, said, {"model": "m"}, COMPACT))
        assert chat is not None
        said = [*said, SAID, USER]
    assert life.short == 99
    assert chat.cut is not None
    assert len(chat.cut.front) < 9


def test_other_fields_than_last_time_are_checked_and_used() -> None:
    life = Life.fresh()
    life.ask(body({}, [USER], {"model": "m", "tools": [TOOL]}, COMPACT))
    chat = life.ask(body({}, [USER, SAID, USER], {"max_tokens": 7, "stream": True}, COMPACT))
    assert chat is not None
    assert (life.short, chat.budget, chat.stream, chat.tools) == (1, 7, True, None)
    assert life.ask(body({}, [USER, SAID, USER, SAID, USER], {"n": 2}, COMPACT)) is None


def test_the_matcher_is_not_asked_about_what_it_said() -> None:
    asked: list[str] = []

    def watching(stored: dict[str, Any], replayed: dict[str, Any]) -> bool:
        asked.append(stored["role"])
        return strict(stored, replayed)

    life = Life.fresh()
    said = [USER]
    for _ in range(4):
        raw = body({}, said, {}, COMPACT)
        chat = life.parse(raw)
        asked.clear()
        life.session.state.position(chat.messages, watching, repeated=chat.repeated)
        life.ask(raw)
        said = [*said, SAID, USER]
    # of six stored messages five are the same object or were matched the turn before
    assert asked == ["assistant"]


def test_a_client_that_never_repeats_itself_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    monkeypatch.setattr(replay, "find_cut", lambda raw: looked.append(raw) or find_cut(raw))
    life = Life.fresh()
    for turn in range(40):
        life.ask(body({"request": turn}, [USER], {}, COMPACT))
    assert len(looked) == 16
    assert life.session not in life.replays._known


def test_conversations_that_take_turns_are_each_read_piece_by_piece() -> None:
    life = Life.fresh()
    agents = [[{"role": "system", "content": f"You are agent {number}."}, USER] for number in range(6)]
    for _ in range(5):
        for said in agents:
            assert life.ask(body({}, said, {"model": "m"}, COMPACT)) is not None
            said += [SAID, USER]
    assert life.short == 6 * 4
    [known] = life.replays._known.values()
    assert len(known) == 6


def test_a_session_that_is_gone_is_forgotten() -> None:
    life = Life.fresh()
    life.ask(FIRST)
    assert len(life.replays._known) == 1
    life.session = Session("t", Tree(append_roles=ROLES, max_nodes=1), exclusive=False, now=0.0)
    assert len(life.replays._known) == 0


@pytest.mark.parametrize(
    ("raw", "front"),
    [
        (b'{"messages":[1]}', b'{"messages":[1'),
        (b'{"messages":[1],"stop":["a"]}', b'{"messages":[1'),
        (b'{"stop":["]"],"messages":[{"a":[1]} \n ] , "x":{"y":[2]}}', b'{"stop":["]"],"messages":[{"a":[1]}'),
        (b'{"messages":[1],"messages":[2]}', b'{"messages":[1],"messages":[2'),
        (b'{"m\\u0065ssages":[1]}', b'{"m\\u0065ssages":[1'),
        (b'{"messages":["]}"],"":1}', b'{"messages":["]}"'),
        (b'{"messages":[2],"stop":[1],"messages":3}', None),
        (b'{"other":[1]}', None),
        (b'{"messages":[]}', None),
        (b'{"a":{"messages":[1]}}', None),
    ],
)
def test_a_cut_is_behind_the_last_message_or_nowhere(raw: bytes, front: bytes | None) -> None:
    cut = find_cut(raw)
    assert (None if cut is None else b"".join(cut.front)) == front
    assert cut is None or b"".join(cut.front) + cut.rest == raw


def test_what_names_the_messages_again_is_no_rest() -> None:
    assert fields_behind(b'],"a":1}') == {"a": 1}
    assert fields_behind(b'],"messages":[1]}') is None
    assert fields_behind(b'],"m\\u0065ssages":[1]}') is None
    assert fields_behind(b'],"":[0]}') == {"": [0]}
