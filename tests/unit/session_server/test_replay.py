"""A body that repeats the last one is read as if it were read whole: the same request, or the same refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.core.errors import InvalidError, SessionError
from session_server.core.linear import Line
from session_server.core.matchers import strict
from session_server.core.session import Session, State
from session_server.core.tokens import Snapshot, pack
from session_server.core.tree import Tree
from session_server.core.turn import EngineRequest, Position, Record, Turn
from session_server.wire import replay
from session_server.wire.openai import ChatRequest, EngineOptions, parse_chat
from session_server.wire.replay import Body, Replays, fields_behind, find_cut
from session_testing.server import SYSTEM, TOOL, USER

ROLES = frozenset({"system", "user", "assistant", "tool"})
OPTIONS = EngineOptions()


def outcome(parse: Any, raw: bytes) -> tuple[Any, ...]:
    """What a parser makes of a body, as values that can be compared."""
    try:
        chat: ChatRequest = parse(raw)
        request = orjson.loads(written(chat).content())
    except InvalidError as error:
        return ("refused", str(error))
    return chat.messages, chat.tools, chat.template_kwargs, chat.stream, chat.budget, dict(chat.fields), request


def attached(state: State, said: tuple[dict[str, Any], ...], repeated: Turn | None) -> Position | str:
    """Where a request attaches, or why it does not."""
    try:
        return state.position(said, strict, repeated=repeated)
    except SessionError as error:
        return str(error)


def written(chat: ChatRequest) -> EngineRequest:
    return chat.engine_request(Snapshot(pack([1, 2])), None, template_kwargs=chat.template_kwargs, options=OPTIONS)


@dataclass
class Life:
    """A session whose requests are parsed both ways; the accepted ones are answered and remembered."""

    replays: Replays
    session: Session
    chunk: int = 1 << 18
    short: int = 0

    @classmethod
    def fresh(cls, core: str = "v2", *, chunk: int = 1 << 18) -> Life:
        tree, line = Tree(append_roles=ROLES, max_nodes=1024), Line(append_roles=ROLES, max_turns=1024)
        return cls(Replays(), Session("s", tree if core == "v2" else line, exclusive=False, now=0.0), chunk)

    def receive(self, raw: bytes) -> Body:
        """`raw` as it comes in, in chunks of `chunk` bytes."""
        received = self.replays.expect(self.session)
        for start in range(0, len(raw), self.chunk):
            received.feed(raw[start : start + self.chunk])
        assert received.whole() == raw
        return received

    def parse(self, raw: bytes) -> ChatRequest:
        return self.replays.parse(self.receive(raw))

    def ask(self, raw: bytes) -> ChatRequest | None:
        """Parse `raw` both ways, compare, and record a turn where it is accepted."""
        seen = outcome(self.parse, raw)
        assert seen == outcome(parse_chat, raw)
        if seen[0] == "refused":
            return None
        body = self.receive(raw)
        chat = self.replays.parse(body)
        self.short += chat.cut is not None
        state = self.session.state
        position = attached(state, chat.messages, chat.repeated)
        plain = attached(state, parse_chat(raw).messages, None)
        if isinstance(position, str) or isinstance(plain, str):
            assert position == plain
            return None
        assert position.parent is plain.parent
        assert position.tail == plain.tail
        request = chat.engine_request(Snapshot(pack([1])), None, template_kwargs=chat.template_kwargs, options=OPTIONS)
        state.commit(
            position.turn(
                seq=state.next_seq,
                assistant={"role": "assistant", "content": "It is sunny."},
                tokens=Snapshot(pack([1])),
                completion_start=0,
                finish_reason="stop",
                response_id=None,
                record=Record(request, b"{}", 0.0, 0.0, chat.tools),
            )
        )
        self.replays.learn(self.session, body, chat, request, position.parent)
        return chat


texts = st.one_of(
    st.text(max_size=8), st.sampled_from(['],"messages":[', '"}]', "]", "}", "\\", '\\"', "é", "\u2028", "🙂", "\x7f"])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
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
styles = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 1]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)


def body(before: dict[str, Any], said: list[dict[str, Any]], behind: dict[str, Any], style: dict[str, Any]) -> bytes:
    """A body in which the messages stand between other fields."""
    whole = {**before, "messages": said, **{key: value for key, value in behind.items() if key not in before}}
    return json.dumps(whole, **style).encode("utf-8", "surrogatepass")


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
    for turn in range(8):
        life.ask(body({"request": turn}, [USER], {}, COMPACT))
    assert len(looked) == 3


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
