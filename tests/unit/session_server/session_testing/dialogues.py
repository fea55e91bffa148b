"""Dialogues for every family: what may follow a generation, and stored turns as a model would have left them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from session_server.core.tokens import Snapshot, pack
from session_server.core.turn import EngineRequest, Position, Record, Turn
from session_server.settings import Settings
from session_server.tito.codec import Codec
from session_server.tito.families import FAMILIES, find
from session_server.tito.loading import bind
from session_server.tito.vocabulary import Vocabulary

from session_testing.families import END, Maker, checkpoint, shaped
from session_testing.tokenizers import byte_level, sentencepiece_like

ALL = sorted(FAMILIES)
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Weather", "parameters": {"type": "object"}},
    }
]
SYSTEM = {"role": "system", "content": "Assist."}
USER = {"role": "user", "content": "What is the weather in Beijing?"}
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"location": "Beijing"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "get_weather", "arguments": '{"location": "東京"}'}},
]
TOOL_1 = {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": '{"temperature": 22}'}
TOOL_2 = {"role": "tool", "tool_call_id": "call_2", "name": "get_weather", "content": "25 degrees"}
MORE = {"role": "user", "content": "Now check the weather in Shanghai."}
NOTE = {"role": "system", "content": "Be brief."}
SAID = {"role": "assistant", "content": "It was sunny."}

Messages = list[dict[str, Any]]

TAILS: dict[str, Messages] = {
    "tool": [TOOL_1],
    "tool tool": [TOOL_1, TOOL_2],
    "tool tool swapped": [TOOL_2, TOOL_1],
    "tool user": [TOOL_1, MORE],
    "user": [MORE],
    "system user": [NOTE, MORE],
    "tool system user": [TOOL_1, NOTE, MORE],
    "assistant user": [SAID, MORE],
    "assistant assistant user": [SAID, SAID, MORE],
}

KINDS = ("byte level", "sentencepiece like", "family shaped")


def allowed(family: str, tail: str) -> bool:
    """Whether the family lets these roles follow a generation."""
    return {message["role"] for message in TAILS[tail]} <= find(family).append_roles


EACH = [(family, tail) for family in ALL for tail in TAILS if allowed(family, tail)]
"""Every family with every tail that it allows."""


def codecs(kind: str, root: Path) -> dict[str, Codec]:
    """A codec for every family, its tokenizer of `kind`; the checkpoints are written below `root`."""
    made = {}
    for name in ALL:
        make: Maker = {KINDS[0]: byte_level, KINDS[1]: sentencepiece_like}.get(kind) or shaped(name)
        path = checkpoint(name, root / name, make)
        settings = Settings(
            engine_url="http://engine:30000",
            core_version="v2",
            tokenizer_path=path,
            tito_model=name,
            # what the other families that use this template are fixed to
            chat_template_kwargs={"preserve_thinking": True} if name == "default" else {},
        )
        made[name] = bind(find(name), Vocabulary.load(path, trust_remote_code=False), settings)
    return made


def calls_for(tail: Messages) -> Messages:
    """Calls that the tool results of `tail` answer."""
    return CALLS[: sum(message["role"] == "tool" for message in tail)]


def answer(tail: Messages) -> dict[str, Any]:
    """What an assistant said that `tail` can follow."""
    message: dict[str, Any] = {"role": "assistant", "content": "I look.", "reasoning_content": "Think first."}
    if calls_for(tail):
        message["tool_calls"] = calls_for(tail)
    return message


def stored_turn(codec: Codec, position: Position, tail: Messages, *, drift: str = "") -> tuple[Turn, list[int]]:
    """The turn of `position` that `tail` will follow, and its completion.

    The assistant writes what the family's template would write for it; with `drift`, that and then something else,
    before it ends its turn.
    """
    family = codec.family
    prompt = codec.prompt(position, tools=TOOLS, kwargs=codec.kwargs({}))
    assistant = answer(tail)
    history = position.parent.messages() if position.parent is not None else []
    whole = codec.vocabulary.encode(codec.render([*history, *position.tail, assistant], tools=TOOLS))
    # what is stored may differ from its canonical form, so the completion is taken from a conversation that does not
    before = codec.prompt(first([*history, *position.tail]), tools=TOOLS, kwargs=codec.kwargs({})).ids()
    assert whole[: len(before)] == before, codec.vocabulary.decode(whole.tolist())
    completion = whole[len(before) :].tolist()
    end = codec.vocabulary.token_id(END[family.name])
    if family.drop_last:
        opener = "<|observation|>" if calls_for(tail) else "<|user|>"
        last = codec.vocabulary.token_id(opener)
    else:
        while completion.pop() != end:
            pass
        last = end
    completion += [*codec.vocabulary.encode_behind(None, drift).tolist(), last]
    turn = position.turn(
        seq=0 if position.parent is None else position.parent.seq + 1,
        assistant=assistant,
        tokens=Snapshot(prompt.ids() + pack(completion)),
        completion_start=len(prompt),
        finish_reason="stop",
        response_id="r",
        record=Record(EngineRequest(b"{}", (), ()), b"{}", 0.0, 0.0, TOOLS),
    )
    return turn, completion


def first(history: Messages) -> Position:
    """A fresh session's first request."""
    return Position(parent=None, tail=tuple(history), tail_start=0)


def behind(turn: Turn, tail: Messages) -> Position:
    """A request that appends `tail`."""
    return Position(parent=turn, tail=tuple(tail), tail_start=turn.message_count)
