"""The reply beside the text of its sampled ids: faults of an engine that every count agrees with."""

from __future__ import annotations

from typing import Any

import pytest

from runner.agents.records import Record
from runner.base.terms import Lane
from runner.oracle.measure import Measure
from runner.oracle.text import check_text
from runner.oracle.tokens import Tokens
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.oracle.conftest import driven


@pytest.mark.parametrize(
    ("turn", "seen"),
    [(1, ("render", "content")), (2, ("text", "content")), (3, ("render", "content"))],
    ids=["in the syntax of a call", "in a word of the answer", "in the syntax of a later call"],
)
@pytest.mark.parametrize("kind", [Kind.DROP_TOKEN, Kind.SWAP_TOKEN])
def test_a_sampled_id_that_the_engine_lost_or_exchanged_is_found(
    kind: Kind, turn: int, seen: tuple[str, str], measure: Measure
) -> None:
    """Parsers keep nothing of a call's syntax: there it is changed content of the render, which no family tolerates."""
    case = driven(Lane.V1_OPENAI, measure, stream=True, faults=[Fault(kind, turn=turn)])
    findings = [finding for finding in case.judged() if finding.check in ("text", "render")]
    assert {finding.turn for finding in findings} == {turn}
    assert seen in {(finding.check, finding.type) for finding in findings}
    assert case.cell.limits.content == 0


def record(text: str, tokens: Tokens, **message: Any) -> Record:
    ids = tokens.encode(text)
    entries = [[-0.1, token_id, None] for token_id in ids]
    meta = {"output_token_logprobs": entries, "completion_tokens": len(ids)}
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop", "meta_info": meta}
    return Record.model_validate(
        {
            "path": "/v1/chat/completions",
            "status_code": 200,
            "request": {"messages": [], "input_ids": [1]},
            "response": {"id": "r", "choices": [choice]},
        }
    )


def call(arguments: str, name: str = "f") -> list[dict[str, Any]]:
    return [{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]


ARGUMENTS = '{"x": "Z\\u00fcrich \\"1\\"", "n": 3}'
CALL = f'<think>\na\n</think>\n\n<tool_call>\n{{"name": "f", "arguments": {ARGUMENTS}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "message", "found"),
    [
        ("<think>\na\n</think>\n\nHi<|im_end|>", {"content": "\n\nHi", "reasoning_content": "\na\n"}, set()),
        ("<think>\na\n</think>\n\nHi<|im_end|>", {"content": "Hi", "reasoning_content": "a"}, set()),
        (
            "<think>\na\n</think>\n\nHi<|im_end|>",
            {"content": "Hi!", "reasoning_content": "b"},
            {"content", "reasoning"},
        ),
        ("Hi<|im_end|>", {"content": None, "reasoning_content": None}, set()),
        (CALL, {"content": "put together", "tool_calls": call('{"x": "Zürich \\"1\\"", "n": 3}')}, set()),
        (CALL, {"tool_calls": call('{"x": "Basel", "n": 3}')}, {"call_argument"}),
        (CALL, {"tool_calls": call('{"x": ["Bern"]}')}, {"call_argument"}),
        (CALL, {"tool_calls": call("{}", name="other")}, {"call_name"}),
        (CALL, {"tool_calls": call("no json")}, set()),
        ("Say <|im_start|>.<|im_end|>", {"content": "Say <|im_start|>."}, set()),
        ("Say <|im_start|>.<|im_end|>", {"content": "Say <|endoftext|>."}, {"content"}),
        ("get_<|im_end|>x<|im_end|>", {"content": "", "tool_calls": call("{}", name="get_<|im_end|>x")}, {"call_name"}),
    ],
)
def test_every_part_of_a_reply_must_stand_in_the_sampled_text(
    text: str, message: dict[str, Any], found: set[str], tokens: Tokens
) -> None:
    assert {finding.type for finding in check_text([record(text, tokens, **message)], [1], tokens)} == found


@pytest.mark.parametrize(
    ("prompt", "found"), [("<|im_start|>assistant\n<think>\n", set()), ("<|im_start|>assistant\n", {"content"})]
)
def test_an_opening_tag_that_stands_in_the_prompt_may_be_part_of_the_content(
    prompt: str, found: set[str], tokens: Tokens
) -> None:
    """SGLang's minimax-append-think parser puts the tag that the prompt has in front of the sampled text."""
    reply = record("a\n</think>\n\nHi<|im_end|>", tokens, content="<think>a\n</think>\n\nHi")
    reply.request.input_ids[:] = tokens.encode(prompt)
    assert {finding.type for finding in check_text([reply], [1], tokens)} == found
