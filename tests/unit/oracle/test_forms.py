"""Every family of the matrix has a canonical form, and it is the text that the family's own author writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from miles_tito_tokenizers.encoders import deepseek_v4

from runner.base.errors import InfrastructureError
from runner.oracle import deepseek
from runner.oracle.deepseek import DeepSeek
from runner.oracle.forms import FORMS
from runner.oracle.inkling import Inkling
from runner.oracle.measure import Measure
from runner.oracle.render import Canon
from runner.oracle.soft import SoftClass, classify
from runner.oracle.tokens import Tokens
from runner.plan.families import load_families
from tests.scripted_engine.checkpoints import write
from tests.scripted_engine.dialects import DIALECTS
from tests.scripted_engine.model import answer

Message = dict[str, Any]
TOOLS: list[Message] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "d",
            "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
        },
    }
]
SYSTEM = {"role": "system", "content": "Be a weather bot."}
USER = {"role": "user", "content": "What's the weather in Beijing?"}


def call(identity: str, arguments: Message) -> Message:
    return {"id": identity, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


LOOKS: Message = {
    "role": "assistant",
    "content": "I look.",
    "reasoning_content": "think",
    "tool_calls": [call("c1", {"location": "東京"}), call("c2", {"days": 2, "deep": [1, None, "</think>"]})],
}
RESULTS: list[Message] = [
    {"role": "tool", "tool_call_id": "c2", "content": "second"},
    {"role": "tool", "tool_call_id": "c1", "content": "first"},
]


def reference(messages: list[Message], tools: list[Message] | None) -> str:
    """DeepSeek's own encoder, each turn opened by itself where no user message opens it."""
    spelled = json.loads(json.dumps(messages))
    for message in spelled:
        for made in message.get("tool_calls") or []:
            made["function"]["arguments"] = json.dumps(made["function"]["arguments"], ensure_ascii=False)
    if tools:
        spelled = (
            spelled if spelled and spelled[0]["role"] == "system" else [{"role": "system", "content": ""}, *spelled]
        )
        spelled[0]["tools"] = tools
    merged = deepseek_v4.sort_tool_results_by_call_order(deepseek_v4.merge_tool_messages(spelled))
    text, before = deepseek_v4.bos_token, ""
    for index, message in enumerate(merged):
        if message["role"] == "assistant" and before != "user":
            text += "<｜Assistant｜><think>"
        text += deepseek_v4.render_message(index, merged, thinking_mode="thinking", drop_thinking=False)
        before = message["role"]
    return text if before == "user" else text + "<｜Assistant｜><think>"


def deepseek_text(messages: list[Message], tools: list[Message] | None) -> str:
    return DeepSeek().write(messages, tools, prompt=True)


@pytest.mark.parametrize(
    "messages",
    [
        [SYSTEM, USER],
        [USER],
        [SYSTEM, USER, LOOKS, *RESULTS],
        [SYSTEM, USER, LOOKS, *RESULTS, USER, {"role": "assistant", "content": "Sunny."}, USER],
        [SYSTEM, USER, {"role": "assistant", "content": "A"}, {"role": "assistant", "content": "B"}, USER],
        [USER, {"role": "assistant", "content": "", "tool_calls": [call("x", {})]}, *RESULTS[:1]],
    ],
    ids=["opening", "no system prompt", "results in call order", "user behind results", "injected", "no arguments"],
)
@pytest.mark.parametrize("tools", [TOOLS, None], ids=["tools", "no tools"])
def test_deepseek_is_written_as_its_own_encoder_writes_it(messages: list[Message], tools: list[Message] | None) -> None:
    assert deepseek_text(messages, tools) == reference(messages, tools)


_TEXTS = st.text(st.sampled_from("ab \n<>\"'{}東"), max_size=6)
_ASKED = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, _TEXTS),
    st.builds(
        lambda text, i: {"role": "tool", "tool_call_id": i, "content": text}, _TEXTS, st.sampled_from(["p", "q"])
    ),
)
_TURN = st.builds(
    lambda content, thought, arguments: {
        "role": "assistant",
        "content": content,
        "reasoning_content": thought,
        **({"tool_calls": [call(i, value) for i, value in zip("pq", arguments, strict=False)]} if arguments else {}),
    },
    _TEXTS,
    _TEXTS,
    st.lists(st.dictionaries(st.sampled_from("kl"), st.one_of(_TEXTS, st.integers(), st.booleans())), max_size=2),
)


@given(st.lists(st.one_of(_ASKED, _TURN), min_size=1, max_size=6), st.booleans())
def test_any_conversation_is_written_as_deepseeks_encoder_writes_it(messages: list[Message], tools: bool) -> None:
    shown = TOOLS if tools else None
    assert deepseek_text([SYSTEM, *messages], shown) == reference([SYSTEM, *messages], shown)


def test_the_words_around_deepseeks_tools_are_read_and_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert deepseek_v4.render_tools([TOOLS[0]["function"]]) in deepseek_text([SYSTEM, USER], TOOLS)
    monkeypatch.setattr(deepseek, "_PACKAGE", "no_such_package_here")
    deepseek._guide.cache_clear()
    with pytest.raises(InfrastructureError, match="not installed: no TOOLS_TEMPLATE in no_such_package_here"):
        DeepSeek()
    deepseek._guide.cache_clear()


def test_inkling_is_written_as_its_renderer_writes_it() -> None:
    """The text of tml-renderers 0.2.1 through SGLang 0.5.23's `render_inkling_messages`."""
    note = {"role": "system", "content": "Reminder"}
    assert Inkling().write([SYSTEM, USER, LOOKS, RESULTS[1], note], TOOLS, prompt=True) == (
        "<|message_system|><|content_text|>Be a weather bot.<|end_message|>"
        '<|message_system|>tool_declare<|content_xml|>[{"description":"d","name":"get_weather","parameters":'
        '{"properties":{"location":{"type":"string"}},"type":"object"},"type":"function"}]<|end_message|>'
        "<|message_system|><|content_text|>Thinking effort level: 0.9<|end_message|>"
        "<|message_user|><|content_text|>What's the weather in Beijing?<|end_message|>"
        "<|message_model|><|content_thinking|>think<|end_message|>"
        "<|message_model|><|content_text|>I look.<|end_message|>"
        "<|message_model|>get_weather<|content_invoke_tool_json|>"
        '{"name":"get_weather","args":{"location":"東京"}}<|end_message|>'
        "<|message_model|>get_weather<|content_invoke_tool_json|>"
        '{"name":"get_weather","args":{"days":2,"deep":[1,null,"</think>"]}}<|end_message|>'
        "<|content_model_end_sampling|>"
        "<|message_tool|>get_weather<|content_text|>first<|end_message|>"
        "<|message_system|><|content_text|>Reminder<|end_message|><|message_model|>"
    )


@pytest.mark.parametrize("writer", [DeepSeek, Inkling])
def test_a_role_that_a_family_does_not_have_is_refused(writer: type[DeepSeek] | type[Inkling]) -> None:
    with pytest.raises(ValueError, match="has no role 'critic'"):
        writer().write([{"role": "critic", "content": "x"}], None, prompt=True)


def test_every_family_of_the_plan_has_a_canonical_form() -> None:
    assert {family.tito_model for family in load_families().values()} <= set(FORMS)


@pytest.mark.parametrize("family", DIALECTS)
@pytest.mark.parametrize("asked", ["call", "answer"])
def test_what_the_scripted_engine_samples_is_the_canonical_text_of_what_it_parses(
    family: str, asked: str, tmp_path: Path
) -> None:
    """Prompt + sampled text == render of the whole conversation: writer, reader and form agree for every family."""
    model = write(family, tmp_path / family)
    canon = Canon.load(model, family, Tokens.load(model))
    assert canon is not None
    dialect = DIALECTS[family]
    history = [SYSTEM, USER if asked == "call" else {"role": "user", "content": "Hello!"}]
    said = answer(history, TOOLS, None)
    assert bool(said.calls) == (asked == "call")
    text = dialect.write(said, said.thought(0))
    parsed = dialect.parse(text, {"get_weather"}, calls_allowed=True)
    assert bool(parsed.get("tool_calls")) == (asked == "call")
    sampled = canon.text(history, TOOLS, prompt=True) + text
    whole = canon.text([*history, parsed], TOOLS, prompt=False)
    end = dialect.end(said)
    assert whole.removesuffix("\n").removesuffix(end) == sampled


_DSML = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n{}\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
_DSML_VALUE = '<｜DSML｜parameter name="k" string="true">{}</｜DSML｜parameter>'
_INKLING = "f<|content_invoke_tool_json|>{}<|end_message|>"


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        (
            "a</think>\n\n" + _DSML.format(_DSML_VALUE.format("v")),
            "a</think>\n\n" + _DSML.format(f"  {_DSML_VALUE.format('v')}"),
            SoftClass.TOOL_CALL,
        ),
        (_DSML.format(_DSML_VALUE.format("v")), _DSML.format(_DSML_VALUE.format("w")), SoftClass.CONTENT),
        (_INKLING.format('{"name":"f","args":{}}'), _INKLING.format('{"name": "f", "args": {}}'), SoftClass.TOOL_CALL),
        (_INKLING.format('{"args":{"k":1}}'), _INKLING.format('{"args":{"k":2}}'), SoftClass.CONTENT),
    ],
    ids=["DeepSeek: spacing", "DeepSeek: a value", "Inkling: spacing", "Inkling: a value"],
)
def test_another_spacing_of_a_call_is_no_other_content(expected: str, actual: str, found: SoftClass) -> None:
    assert classify(expected, actual) is found


@pytest.mark.parametrize("family", DIALECTS)
def test_nothing_is_left_to_load_when_the_first_conversation_is_rendered(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine an import in the middle of a lane held up all sessions for longer than their time-outs."""
    import transformers

    measure = Measure.load(write(family, tmp_path / family), family)

    def late(*arguments: object, **options: object) -> None:
        raise AssertionError("a tokenizer was loaded while a session was judged")

    monkeypatch.setattr(transformers, "PreTrainedTokenizerFast", late)
    assert measure.canon is not None
    assert measure.canon.text([SYSTEM, USER], TOOLS, prompt=True)
