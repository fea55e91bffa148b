"""Every family: continuing stored tokens gives what rendering the whole conversation gives.

The tails of miles#1712 and miles#949, and joints as in miles#1319: equal to the full render token by token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session_server.core.errors import InvalidError
from session_server.settings import Settings
from session_server.tito.codec import Codec
from session_server.tito.families import FAMILIES, Encoder, find
from session_server.tito.loading import bind
from session_server.tito.vocabulary import Vocabulary
from session_testing import dialogues
from session_testing.dialogues import ALL, EACH, KINDS, MORE, SYSTEM, TAILS, TOOLS, USER, behind, first, stored_turn
from session_testing.families import END


@pytest.fixture(scope="module", params=KINDS)
def codecs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Codec]:
    return dialogues.codecs(request.param, tmp_path_factory.mktemp("families"))


@pytest.mark.parametrize(("family", "tail"), EACH)
def test_a_continuation_is_the_full_render_miles_1712_949(codecs: dict[str, Codec], family: str, tail: str) -> None:
    codec = codecs[family]
    history = [SYSTEM, USER]
    turn, _ = stored_turn(codec, first(history), TAILS[tail])
    prompt = codec.prompt(behind(turn, TAILS[tail]), tools=TOOLS, kwargs=codec.kwargs({})).ids()
    full = first([*history, turn.assistant, *TAILS[tail]])
    expected = codec.prompt(full, tools=TOOLS, kwargs=codec.kwargs({})).ids()
    decode = codec.vocabulary.decode
    assert decode(prompt.tolist()) == decode(expected.tolist())
    assert prompt == expected
    kept = len(turn.token_ids) - codec.family.max_trim_tokens
    assert prompt[:kept] == turn.token_ids[:kept]


@pytest.mark.parametrize("family", ALL)
def test_the_comparison_finds_no_difference_in_a_canonical_dialogue(codecs: dict[str, Codec], family: str) -> None:
    codec = codecs[family]
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS["tool"])
    assert codec.mismatches(turn.messages(), turn.token_ids, tools=TOOLS) == []


@pytest.mark.parametrize("family", ALL)
def test_the_comparison_sees_a_changed_letter_in_the_users_words(codecs: dict[str, Codec], family: str) -> None:
    codec = codecs[family]
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS["tool"])
    changed = [SYSTEM, {**USER, "content": USER["content"].replace("Beijing", "Peking")}, turn.assistant]
    [mismatch] = codec.mismatches(changed, turn.token_ids, tools=TOOLS)
    assert mismatch["type"] == "non_assistant_text"


@pytest.mark.parametrize("family", [name for name in ALL if FAMILIES[name].assistant_start is not None])
def test_what_the_assistant_wrote_differently_is_only_its_own_text(codecs: dict[str, Codec], family: str) -> None:
    codec = codecs[family]
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS["tool"])
    changed = [SYSTEM, USER, {**turn.assistant, "content": "I  look."}]
    assert {m["type"] for m in codec.mismatches(changed, turn.token_ids, tools=TOOLS)} == {"assistant_text"}


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize(
    "arguments",
    ['{"location": "Zürich", "days": 2}', '{"location":"Zürich","days":2}', {"location": "Zürich", "days": 2}],
)
def test_arguments_render_the_same_however_they_are_spelled_qwen3_1894(
    codecs: dict[str, Codec], family: str, arguments: Any
) -> None:
    """Qwen3#1894, LocalAI#10558, GLM-5#158: one canonical form."""
    codec = codecs[family]
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather"}}

    def text(value: Any) -> str:
        message = {"role": "assistant", "content": "", "reasoning_content": "x"}
        message["tool_calls"] = [{**call, "function": {**call["function"], "arguments": value}}]
        return codec.render([SYSTEM, USER, message], tools=TOOLS)

    assert text(arguments) == text({"location": "Zürich", "days": 2})
    assert text("") == text("{}") == text({}) == text(None)


@pytest.mark.parametrize("family", ALL)
def test_no_calls_is_no_calls_however_it_is_said(codecs: dict[str, Codec], family: str) -> None:
    """vllm#13978: an empty list, null and nothing."""
    codec = codecs[family]
    message = {"role": "assistant", "content": "Hi.", "reasoning_content": "x"}
    texts = {
        codec.render([SYSTEM, USER, {**message, **extra}], tools=TOOLS)
        for extra in ({}, {"tool_calls": None}, {"tool_calls": []})
    }
    assert len(texts) == 1


@pytest.mark.parametrize("family", ALL)
def test_a_stop_token_that_opens_the_next_message_counts_once_miles_784(codecs: dict[str, Codec], family: str) -> None:
    """miles#784."""
    codec = codecs[family]
    turn, _ = stored_turn(codec, first([SYSTEM, USER]), TAILS["user"])
    position = behind(turn, [MORE])
    text = codec.vocabulary.decode(codec.prompt(position, tools=TOOLS, kwargs=codec.kwargs({})).ids().tolist())
    for token in (END[family], *codec.family.drop_last):
        assert token + token not in text
        assert f"{token}\n{token}" not in text


@pytest.mark.parametrize("family", [name for name in ALL if FAMILIES[name].encoder is not Encoder.JINJA])
def test_deepseek_arguments_that_mean_the_same_replace_each_other(codecs: dict[str, Codec], family: str) -> None:
    codec = codecs[family]
    start = first([SYSTEM, USER])
    ways: list[dict[str, Any]] = [{"thinking_mode": "chat"}, {"enable_thinking": False}, {"thinking": False}]
    prompts = [codec.prompt(start, tools=None, kwargs=codec.kwargs(way)).ids() for way in ways]
    assert prompts[0] == prompts[1] == prompts[2]
    assert codec.vocabulary.decode(prompts[0].tolist()).endswith("<｜Assistant｜></think>")
    with pytest.raises(InvalidError, match="is not known to the DeepSeek encoder"):
        codec.prompt(start, tools=None, kwargs=codec.kwargs({"depth": 3}))


@pytest.mark.parametrize("family", [name for name in ALL if FAMILIES[name].fixed_kwargs])
def test_a_fixed_template_argument_cannot_be_overridden(codecs: dict[str, Codec], family: str) -> None:
    codec = codecs[family]
    [(name, value)] = codec.family.fixed_kwargs.items()
    assert codec.kwargs({name: value})[name] == value
    with pytest.raises(
        InvalidError,
        match=f"chat template kwarg {name}=.* conflicts with the value registered for {codec.family.class_name}",
    ):
        codec.kwargs({name: not value})


def test_unknown_families_are_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown model family 'nope'; known: default, qwen3"):
        find("nope")


def test_families_agree_with_the_package_where_it_has_them(codecs: dict[str, Codec]) -> None:
    """The rules are ours; where the package states the same fact, it states the same value."""
    from miles_tito_tokenizers import TITOTokenizerType

    for kind in TITOTokenizerType:
        cls = TITOTokenizerType.get_tokenizer_class(kind)
        family = find(kind.value)
        assert (family.class_name, family.max_trim_tokens) == (cls.__name__, cls.max_trim_tokens)
        assert (family.reasoning_parser, family.tool_call_parser) == (cls.reasoning_parser, cls.tool_call_parser)
        if family.encoder is Encoder.JINJA and cls.SUPPORTED_TEMPLATES:
            widest = max(cls.SUPPORTED_TEMPLATES, key=lambda row: len(row.allowed_roles))
            assert family.template == widest.template
            assert dict(family.fixed_kwargs) == widest.extra_kwargs


def test_a_directory_without_the_familys_tokens_is_refused_by_name(qwen_path: Path) -> None:
    from session_server.tito.vocabulary import TokenizerError

    settings = Settings(engine_url="http://e", core_version="v1", tokenizer_path=qwen_path, tito_model="glm47")
    with pytest.raises(TokenizerError, match=r"no chat template and family glm47 brings none"):
        bind(find("glm47"), Vocabulary.load(qwen_path, trust_remote_code=False), settings)
    with pytest.raises(TokenizerError, match=r"no single token '\[e~\['"):
        bind(find("minimax_m27"), Vocabulary.load(qwen_path, trust_remote_code=False), settings)
