"""Whatever was sampled and whatever follows it: stored ids stay, and only the tail is added, as it is rendered in full.

`test_families` has the same for one plain text per tail; here are odd texts, sampled text that no template would write,
several turns in a row and other template arguments.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Self

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.core.errors import TokenizationError
from session_server.core.tokens import begins_with
from session_server.core.turn import Turn
from session_server.settings import Settings
from session_server.tito import jinja
from session_server.tito.codec import Codec
from session_server.tito.families import FAMILIES, Encoder, find
from session_server.tito.loading import bind
from session_server.tito.vocabulary import Vocabulary
from session_testing import dialogues
from session_testing.dialogues import (
    ALL,
    EACH,
    KINDS,
    SYSTEM,
    TAILS,
    TOOLS,
    USER,
    Messages,
    allowed,
    behind,
    first,
    stored_turn,
)
from session_testing.families import END, NEMOTRON, checkpoint
from session_testing.tokenizers import QWEN_PLAIN, QWEN_SPECIALS, byte_level, save

DRIFT = '  spaced \n\n</think> {"a": 1 , "b":[ ]}\t don\'t 1234 naïve 東京 e\u0301\u0301 🙂\n<tool_call>\n{\n'
"""What no template writes: a parser would eat it, a render change it."""


@pytest.fixture(scope="module", params=KINDS)
def codecs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Codec]:
    return dialogues.codecs(request.param, tmp_path_factory.mktemp("tails"))


def added(codec: Codec, turn: Turn, tail: Messages, **kwargs: Any) -> list[int]:
    """Ids of the next prompt behind the stored ones, which must be there as they were stored."""
    prompt = codec.prompt(behind(turn, tail), tools=TOOLS, kwargs=codec.kwargs(kwargs))
    stored = turn.token_ids
    trim = codec.family.max_trim_tokens
    assert begins_with(prompt.ids(), stored, without_last=trim)
    return prompt.ids()[len(stored) - trim :].tolist()


def full(codec: Codec, messages: Messages, **kwargs: Any) -> list[int]:
    """Ids of a fresh session with these messages."""
    return codec.prompt(first(messages), tools=TOOLS, kwargs=codec.kwargs(kwargs)).ids().tolist()


@pytest.mark.parametrize(("family", "tail"), EACH)
def test_what_was_sampled_stays_however_odd_it_is(codecs: dict[str, Codec], family: str, tail: str) -> None:
    codec = codecs[family]
    plain, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS[tail])
    odd, completion = stored_turn(codec, first([SYSTEM, USER]), TAILS[tail], drift=DRIFT)
    assert len(odd.token_ids) > len(plain.token_ids)
    assert odd.token_ids[-len(completion) :].tolist() == completion
    assert added(codec, odd, TAILS[tail]) == added(codec, plain, TAILS[tail])


CHAINS = (
    ("tool tool", "user", "tool"),
    ("user", "tool user", "tool tool"),
    ("tool", "tool", "tool"),
    ("tool", "system user", "tool system user"),
    ("user", "assistant user", "tool"),
)


@pytest.mark.parametrize("drift", ["", DRIFT], ids=["canonical", "odd"])
@pytest.mark.parametrize(
    ("family", "chain"), [(name, c) for name in ALL for c in CHAINS if all(allowed(name, tail) for tail in c)]
)
def test_several_turns_in_a_row_are_the_full_render(
    codecs: dict[str, Codec], family: str, chain: tuple[str, ...], drift: str
) -> None:
    """With sampled text that differs, all but that text."""
    codec = codecs[family]
    position = first([USER])
    for tail in chain:
        turn, _ = stored_turn(codec, position, TAILS[tail], drift=drift)
        position = behind(turn, TAILS[tail])
    prompt = codec.prompt(position, tools=TOOLS, kwargs=codec.kwargs({})).ids().tolist()
    expected = full(codec, [*turn.messages(), *TAILS[chain[-1]]])
    if not drift:
        assert codec.vocabulary.decode(prompt) == codec.vocabulary.decode(expected)
        assert prompt == expected
    else:
        last = added(codec, turn, TAILS[chain[-1]])
        assert expected[-len(last) :] == last
        for earlier in turn.path():
            assert begins_with(turn.token_ids, earlier.token_ids, without_last=codec.family.max_trim_tokens)


def test_results_of_calls_further_back_are_put_in_their_order(codecs: dict[str, Codec]) -> None:
    """DeepSeek V4 sorts them by the last calls there were, also when an answer without calls lies in between."""
    codec = codecs["deepseekv4"]
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS["tool tool"])
    turn, _ = stored_turn(codec, behind(turn, TAILS["tool tool"]), TAILS["user"])
    late = [*TAILS["tool tool swapped"], *TAILS["user"]]
    last = added(codec, turn, late)
    assert full(codec, [*turn.messages(), *late])[-len(last) :] == last
    text = codec.vocabulary.decode(last)
    assert text.index('"temperature"') < text.index("25 degrees")


NOT_THINKING = {
    **{name: {"enable_thinking": False} for name in ("qwen3", "qwen35", "qwen36")},
    **{name: {"thinking": False} for name in ("kimi25", "kimi26", "default", "deepseekv32", "deepseekv4")},
}


@pytest.mark.parametrize(("family", "tail"), [(name, tail) for name, tail in EACH if name in NOT_THINKING])
def test_a_tail_is_asked_for_without_thinking_as_a_full_render_is(
    codecs: dict[str, Codec], family: str, tail: str
) -> None:
    codec = codecs[family]
    kwargs = NOT_THINKING[family]
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS[tail])
    last = added(codec, turn, TAILS[tail], **kwargs)
    assert full(codec, [SYSTEM, USER, turn.assistant, *TAILS[tail]], **kwargs)[-len(last) :] == last
    assert last != added(codec, turn, TAILS[tail]), "the argument has no effect, so nothing was tested"


ODD = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(
            [" ", "\n", "\n\n", "\t", "I'm", "don't", "1234", "東京", "é", "e\u0301", "\u0301", "🙂", "{}", "Beijing"]
        ),
        st.sampled_from(
            ["<think>", "</think>", "<tool_call>", "</tool_response>", "<tool_response>", "<|im_", "system"]
        ),
    ),
    max_size=6,
).map("".join)


@pytest.mark.parametrize(("family", "tail"), EACH)
def test_odd_texts_join_as_they_are_rendered_in_full(codecs: dict[str, Codec], family: str, tail: str) -> None:
    codec = codecs[family]
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS[tail])

    @hypothesis.settings(max_examples=5, database=None)
    @given(texts=st.lists(ODD, min_size=len(TAILS[tail]), max_size=len(TAILS[tail])))
    def once(texts: list[str]) -> None:
        messages = [{**message, "content": text} for message, text in zip(TAILS[tail], texts, strict=True)]
        last = added(codec, turn, messages)
        expected = full(codec, [SYSTEM, USER, turn.assistant, *messages])
        assert codec.vocabulary.decode(expected[-len(last) :]) == codec.vocabulary.decode(last)
        assert expected[-len(last) :] == last
        assert len(expected) == len(turn.token_ids) - codec.family.max_trim_tokens + len(last)

    once()


def test_every_family_and_tail_is_covered() -> None:
    """Tails of the reported faults; a family lacks one only where it takes no system message in the middle."""
    named = {"tool", "tool tool", "tool user", "user", "system user", "tool system user"}
    assert named <= set(TAILS)
    assert {family for family, _ in EACH} == set(FAMILIES) == set(END)
    missing = {(family, tail) for family in FAMILIES for tail in TAILS} - set(EACH)
    assert {tail for _, tail in missing} == {"system user", "tool system user"}
    assert {family for family, _ in missing} == {
        *("qwen35", "qwen36", "minimax_m25", "minimax_m27", "deepseekv4"),
    }
    assert {row.encoder for row in FAMILIES.values()} == set(Encoder)


def test_a_conversation_whose_template_forgets_is_continued_as_stored_and_reported(tmp_path: Path) -> None:
    """The checkpoint's own template, told to keep thinking and not told: the ids stay, the render differs."""
    path = checkpoint("default", tmp_path)

    def codec(**kwargs: Any) -> Codec:
        settings = Settings(
            engine_url="http://e",
            core_version="v2",
            tokenizer_path=path,
            tito_model="default",
            chat_template_kwargs=kwargs,
        )
        return bind(find("default"), Vocabulary.load(path, trust_remote_code=False), settings)

    keeps, forgets = codec(preserve_thinking=True), codec()
    turn, _ = stored_turn(keeps, first([USER]), TAILS["user"])
    turn, _ = stored_turn(keeps, behind(turn, TAILS["user"]), TAILS["user"])
    assert keeps.mismatches(turn.messages(), turn.token_ids, tools=TOOLS) == []
    assert added(forgets, turn, TAILS["user"]) == added(keeps, turn, TAILS["user"])
    found = forgets.mismatches(turn.messages(), turn.token_ids, tools=TOOLS)
    assert found
    assert all("Think first." in mismatch["actual_text"] for mismatch in found)
    assert not any("Think first." in mismatch["expected_text"] for mismatch in found)


def test_a_template_that_rewrites_what_was_stored_is_refused(tmp_path: Path) -> None:
    """Twice the same template; the second one leaves thinking out as soon as a user message follows."""
    forgets = NEMOTRON.replace(
        "<think>{{ message.reasoning_content or '' }}</think>",
        "{% if messages[-1].role != 'user' %}<think>{{ message.reasoning_content }}</think>{% endif %}",
    )
    assert forgets != NEMOTRON

    def codec(name: str, template: str) -> Codec:
        tokenizer = byte_level(QWEN_SPECIALS, QWEN_PLAIN)
        path = save(tokenizer, tmp_path / name, eos="<|im_end|>", chat_template=template)
        settings = Settings(engine_url="http://e", core_version="v2", tokenizer_path=path, tito_model="nemotron3")
        family = replace(find("nemotron3"), fixed_kwargs={})
        return bind(family, Vocabulary.load(path, trust_remote_code=False), settings)

    keeps = codec("keeps", NEMOTRON)
    turn, _ = stored_turn(keeps, first([SYSTEM, USER]), TAILS["user"])
    assert keeps.prompt(behind(turn, TAILS["user"]), tools=TOOLS, kwargs={})
    with pytest.raises(TokenizationError, match=r"nemotron3 is not append-only for a tail of \['user'\]"):
        codec("forgets", forgets).prompt(behind(turn, TAILS["user"]), tools=TOOLS, kwargs={})


def test_a_template_that_prints_the_date_goes_on_after_midnight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = "Monday"

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls(2026, 11, 30 if today == "Monday" else 29)

    monkeypatch.setattr(jinja, "datetime", Clock)
    tokenizer = byte_level(QWEN_SPECIALS, QWEN_PLAIN)
    dated = "{{ strftime_now('%A') }}" + NEMOTRON
    path = save(tokenizer, tmp_path / "dated", eos="<|im_end|>", chat_template=dated)
    settings = Settings(engine_url="http://e", core_version="v2", tokenizer_path=path, tito_model="nemotron3")
    codec = bind(replace(find("nemotron3"), fixed_kwargs={}), Vocabulary.load(path, trust_remote_code=False), settings)
    assert codec.render([SYSTEM, USER], tools=None).startswith("Monday")
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS["user"])
    before = codec.prompt(behind(turn, TAILS["user"]), tools=TOOLS, kwargs={}).ids()
    today = "Sunday"
    assert codec.render([SYSTEM, USER], tools=None).startswith("Sunday")
    assert codec.prompt(behind(turn, TAILS["user"]), tools=TOOLS, kwargs={}).ids() == before
