"""The closed-loop evaluation: it follows the verifier's schedules, and every figure can be low."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from micro import evaluate, prompt, script, wordings
from micro.agents import Agent, Ask, anthropic, openai
from micro.backend import Request, Sample
from micro.dice import seeded
from micro.engine import Engine, EngineError, read
from micro.evaluate import Bar, Figures
from micro.families import Family
from micro.turns import Call, Dialogue, Kind, Reply, Spacing, Turn
from tokenizers import Tokenizer

Script = Callable[[Ask], Reply]


def right(ask: Ask) -> Reply:
    """What a perfect model says."""
    if ask.due is Kind.CALL:
        return Reply("I call.", "", (Call("get_weather", {"location": ask.city}),))
    if ask.due is Kind.SUMMARY:
        return Reply("I sum up.", "<final_answer>All is well.</final_answer>")
    return Reply("I answer.", f"Fine in {ask.city}.")


def drive(dialogue: object, answer: Script) -> list[Ask]:
    """All requests of a dialogue that is answered by `answer`."""
    asks: list[Ask] = []
    try:
        ask = next(dialogue)  # type: ignore[call-overload]
        while True:
            asks.append(ask)
            ask = dialogue.send(answer(ask))  # type: ignore[attr-defined]
    except StopIteration:
        return asks


def test_the_openai_agent_follows_the_schedule_of_two_cycles() -> None:
    asks = drive(openai(Agent(seeded(0), held=False), cycles=2), right)
    assert [ask.turn for ask in asks] == [
        "question", "result", "question", "result", "reminder", "reminder", "reminder",
        "sentinel (tool)", "question", "result", "reminder", "reminder", "summary", "summary",
    ]  # fmt: skip
    assert [ask.city for ask in asks if ask.due is Kind.CALL] == ["Beijing", "Shanghai", "Shanghai", "Tokyo"]
    assert asks[4].dialogue == asks[5].dialogue == asks[6].dialogue, "a rollback resends the same history"
    last = asks[-1].dialogue.messages
    assert [message.content for message in last[-3:-1] if isinstance(message, Turn)] == list(script.INJECTED)


def test_a_model_that_never_calls_gets_the_sentinel() -> None:
    asks = drive(openai(Agent(seeded(0), held=False), cycles=1, mode="user"), lambda ask: Reply("", "No."))
    assert asks[1].turn == "sentinel (user)"
    assert asks[1].dialogue.messages[-1] == {"role": "user", "content": script.SENTINEL}


def test_the_anthropic_agent_alternates_forced_calls_and_texts() -> None:
    asks = drive(anthropic(Agent(seeded(0), held=False)), right)
    assert [ask.choice for ask in asks] == ["named", "none"] * 3
    assert [ask.city for ask in asks] == ["Beijing"] * 2 + ["Shanghai"] * 2 + ["Tokyo"] * 2
    assert asks[-1].dialogue.messages[-1] == {"role": "tool", "tool_call_id": "call_2", "content": script.UNAVAILABLE}
    assert [message["role"] for message in asks[4].dialogue.messages[-2:] if not isinstance(message, Turn)] == [
        "system",
        "user",
    ]


def test_held_out_dialogues_use_held_out_wordings_only() -> None:
    first = drive(openai(Agent(seeded(0), held=True), cycles=1), right)[0].dialogue.messages
    assert not isinstance(first[0], Turn) and first[0]["content"] in wordings.SYSTEMS.held


class Puppet:
    """A back end that answers with `answer`, tokenized by the family's own spelling."""

    def __init__(self, family: Family, tokenizer: Tokenizer, answer: Callable[[Request], tuple[str, bool]]) -> None:
        self._family, self._tokenizer, self._answer = family, tokenizer, answer

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        samples = []
        for request in requests:
            text, ended = self._answer(request)
            ids = self._tokenizer.encode(text + (self._family.end if ended else "")).ids
            samples.append(Sample(ids, ended, self._family.parse(text)))
        return samples


def measure(family: Family, template: str, tokenizer: Tokenizer, text: str, ended: bool = True) -> Figures:
    """The figures of a model that always says `text`."""
    puppet = Puppet(family, tokenizer, lambda request: (text, ended))
    return evaluate.run(puppet, family, template, tokenizer, 1, 1, lambda line: None)


CALL = (
    '<think>\nI call.\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"location": "%s"}}\n</tool_call>'
)


def test_a_model_that_always_calls_one_city_fails_cities_and_texts(
    family: Family, chat_template: str, tokenizer: Tokenizer
) -> None:
    figures = measure(family, chat_template, tokenizer, CALL % "Beijing")
    assert figures.calls.share == 1
    assert figures.cities.share < 0.9
    assert figures.texts.share == 0
    assert len(figures.shortfalls(Bar())) == 2
    assert figures.spelled.share == 1
    assert "a call where text is due" in "\n".join(figures.failures)


def test_a_model_that_only_talks_fails_the_calls(family: Family, chat_template: str, tokenizer: Tokenizer) -> None:
    figures = measure(family, chat_template, tokenizer, "<think>\nHm.\n</think>\n\nHello.")
    assert figures.calls.share == 0
    assert figures.cities.total == 0
    assert len(figures.shortfalls(Bar())) == 3, "no call at all is below the bar for cities as well"


def test_a_model_that_does_not_stop_fails_everything(family: Family, chat_template: str, tokenizer: Tokenizer) -> None:
    figures = measure(family, chat_template, tokenizer, CALL % "Beijing", ended=False)
    assert (figures.calls.good, figures.texts.good) == (0, 0)


def test_a_call_in_a_grammars_spacing_is_right_and_not_spelled_as_the_template(
    family: Family, chat_template: str, tokenizer: Tokenizer
) -> None:
    turn = Turn(Kind.CALL, "I call.", calls=(Call("get_weather", {"location": "Beijing"}),), spacing=Spacing.STRICT)
    figures = measure(family, chat_template, tokenizer, family.write(turn))
    assert figures.calls.share == 1
    assert figures.spelled.share == 0
    assert figures.spelled.total < figures.calls.total + figures.texts.total, "forced turns are a grammar's spelling"
    assert "turns spelled as the template does: 0/" in "\n".join(figures.shortfalls(Bar()))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I never stop thinking", "never closed"),
        ("no tag\n</think>\n\nHi.", "does not open"),
        ('<think>\n</think>\n\n<tool_call>\n{"name": "f"}\n</tool_call>', "not a call"),
        ('<think>\n</think>\n\n<tool_call>\n{"name": "f", "arguments": 3}\n</tool_call>', "not a call"),
        ('<think>\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {}}', "never closed"),
        ('<think>\n</think>\n\n<tool_call>{"name": "f", "arguments": {}}</tool_call>', "no line break"),
        ('<think>\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call> bye', "text after"),
        ("<think>\n</think>\n\n<think>\n</think>\n\nHi.", "second thinking"),
        ("<think>\n</think>\n\nHi.</tool_call>", "stray"),
    ],
)
def test_a_malformed_turn_is_named(family: Family, text: str, problem: str) -> None:
    assert problem in "; ".join(family.parse(text).problems)


@pytest.mark.parametrize("spacing", Spacing)
def test_a_written_turn_parses_back(family: Family, spacing: Spacing) -> None:
    call = Call("get_weather", {"location": "Rome"})
    turn = Turn(Kind.CALL, "The user asks about Rome.", calls=(call,), spacing=spacing)
    assert family.parse(family.write(turn)) == Reply(turn.thought, "", (call,))


def test_prompts_reuse_sampled_ids_and_write_the_end_of_a_turn_once(
    family: Family, chat_template: str, tokenizer: Tokenizer
) -> None:
    turn = Turn(Kind.CHAT, "Hm.", "Hello.")
    dialogue = Dialogue(({"role": "user", "content": "Hi"}, turn, {"role": "user", "content": "Bye"}))
    text = family.write(turn)
    odd = [index for character in text for index in tokenizer.encode(character).ids]
    end = tokenizer.token_to_id(family.end)
    with_end = prompt.build(dialogue, [[*odd, end]], family, chat_template, tokenizer)
    assert with_end == prompt.build(dialogue, [odd], family, chat_template, tokenizer)
    at = next(start for start in range(len(with_end)) if with_end[start : start + len(odd)] == odd)
    assert with_end[at + len(odd)] == end
    assert with_end[at + len(odd) + 1] != end
    with pytest.raises(ValueError, match="more sampled turns"):
        prompt.build(dialogue, [], family, chat_template, tokenizer)


def test_the_engine_is_asked_with_ids_and_a_strict_tool_where_the_call_is_forced() -> None:
    dialogue = Dialogue(({"role": "user", "content": "Hi"},), (script.TOOL,))
    engine = Engine("http://127.0.0.1:1/", "qwen3", 0.7)
    forced = engine.body(Request([1, 2], dialogue, "named"))
    assert forced["input_ids"] == [1, 2]
    assert forced["tools"][0]["function"]["strict"] is True  # type: ignore[index,call-overload]
    assert forced["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert engine.body(Request([1], dialogue, "none"))["tool_choice"] == "none"
    assert engine.body(Request([1], dialogue, "auto"))["tools"] == [script.TOOL]


def test_an_engine_that_is_not_there_is_named() -> None:
    with pytest.raises(EngineError, match="is the engine up"):
        Engine("http://127.0.0.1:1", "qwen3", 0.7).sample([Request([1], Dialogue(()), "auto")])


def test_an_answer_without_ids_is_a_fault_and_not_an_empty_sample() -> None:
    with pytest.raises(EngineError, match="no sample"):
        read({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
