"""How a reply is cut into deltas does not change it: character by character, token by token, or whole, on both wires.

And a piece that is lost on the way is not read over: the reply is refused, or is not what the server recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from runner.agents.records import Reply
from runner.agents.sse import Assembler
from runner.agents.stream import MessageAssembler
from runner.base.errors import VerificationError
from runner.oracle.match import differing, strict
from runner.oracle.tokens import Tokens
from tests.unit.agents.bench import MODEL
from tests.unit.agents.test_sse import DONE, USAGE, call, chunk
from tests.unit.agents.test_stream import END, STOP, closed, delta, opened, start

TOKENS = Tokens.load(MODEL)
REASONING = "\nA city, <tool_call> and ü.\n"
ARGUMENTS = orjson.dumps(
    {"location": 'two\nlines "quoted" \\ 北京 🌦 </think></tool_call>', "n": [1, {"x": None}]}
).decode()
Cut = Callable[[str], list[str]]


def by_token(text: str) -> list[str]:
    """Pieces as a detokenizer gives them: nothing until the characters are whole."""
    pieces: list[str] = []
    told = ""
    ids = TOKENS.encode(text)
    for end in range(1, len(ids) + 1):
        so_far = TOKENS.decode(ids[:end])
        if not so_far.endswith("\ufffd"):
            pieces.append(so_far[len(told) :])
            told = so_far
    return pieces


CUTS: dict[str, Cut] = {"character": list, "token": by_token, "whole": lambda text: [text]}


def chat(reasoning: Sequence[str], arguments: Sequence[str]) -> Reply:
    """The reply out of a stream of the OpenAI wire."""
    assembler = Assembler()
    parts = [chunk({"role": "assistant", "content": ""})]
    parts += [chunk({"reasoning_content": piece}) for piece in reasoning]
    parts.append(chunk({"tool_calls": [call(0, id="a", name="f", arguments="")]}))
    parts += [chunk({"tool_calls": [call(0, arguments=piece)]}) for piece in arguments]
    for part in [*parts, chunk({}, "tool_calls"), chunk(None, usage=USAGE), DONE]:
        assembler.feed(part)
    return assembler.reply()


def message(reasoning: Sequence[str], arguments: Sequence[str]) -> Reply:
    """The reply out of a stream of the Anthropic wire."""
    assembler = MessageAssembler()
    parts = [start(), opened(0, type="thinking", thinking="", signature="")]
    parts += [delta(0, "thinking_delta", thinking=piece) for piece in reasoning]
    parts += [closed(0), opened(1, type="tool_use", id="c", name="f", input={})]
    parts += [delta(1, "input_json_delta", partial_json=piece) for piece in arguments]
    for part in [*parts, closed(1), *END, *STOP]:
        assembler.feed(part)
    return assembler.reply()


def test_the_pieces_are_cut_in_different_places_and_are_the_whole_text() -> None:
    cuts = [cut(ARGUMENTS) for cut in CUTS.values()]
    assert len({len(pieces) for pieces in cuts}) == len(CUTS)
    assert {"".join(pieces) for pieces in cuts} == {ARGUMENTS}


@pytest.mark.parametrize("wire", [chat, message])
@pytest.mark.parametrize("cut", CUTS)
def test_a_reply_does_not_depend_on_how_it_was_cut(wire: Callable[..., Reply], cut: str) -> None:
    assert wire(CUTS[cut](REASONING), CUTS[cut](ARGUMENTS)) == wire([REASONING], [ARGUMENTS])


@pytest.mark.parametrize("cut", ["character", "token"])
def test_a_lost_piece_of_the_arguments_is_another_reply_than_the_one_recorded(cut: str) -> None:
    recorded = chat([REASONING], [ARGUMENTS]).message
    pieces = CUTS[cut](ARGUMENTS)
    for lost in range(len(pieces)):
        seen = chat([REASONING], [*pieces[:lost], *pieces[lost + 1 :]]).message
        assert not strict(recorded, seen)
        assert differing(recorded, seen) == ["tool_calls"]


@pytest.mark.parametrize("cut", ["character", "token"])
def test_a_lost_piece_of_an_input_is_refused_or_another_input(cut: str) -> None:
    pieces = CUTS[cut](ARGUMENTS)
    refused = 0
    for lost in range(len(pieces)):
        try:
            block: Any = message([REASONING], [*pieces[:lost], *pieces[lost + 1 :]]).message["content"]
        except VerificationError:
            refused += 1
            continue
        assert block[1]["input"] != orjson.loads(ARGUMENTS)
    assert refused
