"""Sessions whose request bodies are read twice: as what continues the last one, and whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson
from hypothesis import strategies as st
from session_server.core.errors import InvalidError, SessionError
from session_server.core.linear import Line
from session_server.core.matchers import strict
from session_server.core.session import Session, State
from session_server.core.tokens import Snapshot, pack
from session_server.core.tree import Tree
from session_server.core.turn import EngineRequest, Position, Record, Turn
from session_server.wire.openai import ChatRequest, EngineOptions, OpenAI
from session_server.wire.replay import Body, Dialect, Replays

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
    dialect: Dialect
    chunk: int = 1 << 18
    short: int = 0

    @classmethod
    def fresh(cls, core: str = "v2", *, chunk: int = 1 << 18, dialect: Dialect | None = None) -> Life:
        speaks = OpenAI() if dialect is None else dialect
        tree, line = Tree(append_roles=ROLES, max_nodes=1024), Line(append_roles=ROLES, max_turns=1024)
        return cls(
            Replays(speaks), Session("s", tree if core == "v2" else line, exclusive=False, now=0.0), speaks, chunk
        )

    def receive(self, raw: bytes) -> Body:
        """`raw` as it comes in, in chunks of `chunk` bytes."""
        received = Body()
        for start in range(0, len(raw), self.chunk):
            received.feed(raw[start : start + self.chunk])
        assert received.whole() == raw
        return received

    def parse(self, raw: bytes) -> ChatRequest:
        return self.replays.parse(self.session, self.receive(raw))

    def ask(self, raw: bytes) -> ChatRequest | None:
        """Parse `raw` both ways, compare, and record a turn where it is accepted."""
        seen = outcome(self.parse, raw)
        assert seen == outcome(self.dialect.parse, raw)
        if seen[0] == "refused":
            return None
        body = self.receive(raw)
        chat = self.replays.parse(self.session, body)
        self.short += chat.cut is not None
        state = self.session.state
        position = attached(state, chat.messages, chat.repeated)
        plain = attached(state, self.dialect.parse(raw).messages, None)
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
