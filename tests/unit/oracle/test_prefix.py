"""Prefix continuity where a family's join cuts tokens, and the texts that go with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.agents.records import Record
from runner.base.errors import InfrastructureError
from runner.oracle.measure import Measure
from runner.oracle.place import role_at
from runner.oracle.prefix import check_prefix
from runner.oracle.tokens import Tokens, first_difference


def record(prompt: list[int], output: list[int], messages: list[dict[str, Any]] | None = None) -> Record:
    entries = [[-0.1, token_id, None] for token_id in output]
    choice = {
        "message": {"role": "assistant", "content": "x"},
        "finish_reason": "stop",
        "meta_info": {"output_token_logprobs": entries, "completion_tokens": len(output)},
    }
    body = {
        "path": "/v1/chat/completions",
        "status_code": 200,
        "request": {"messages": messages or [], "input_ids": prompt},
        "response": {"id": "r", "choices": [choice]},
    }
    return Record.model_validate(body)


@pytest.mark.parametrize(
    ("after", "trim", "right"),
    [
        ([1, 2, 3, 4, 9], 0, True),
        ([1, 2, 3, 4], 0, True),
        ([1, 2, 3, 9, 9], 0, False),
        ([1, 2, 3], 0, False),
        ([1, 2, 3, 9, 9], 1, True),
        ([1, 2, 3], 1, True),
        ([1, 2, 3, 4, 9], 1, True),
        ([1, 2, 9, 4, 9], 1, False),
        ([], 9, True),
    ],
)
def test_only_the_trimmed_end_may_change(after: list[int], trim: int, right: bool, tokens: Tokens) -> None:
    findings = check_prefix([record([1, 2], [3, 4]), record(after, [5])], [1, 2], trim, tokens)
    assert (findings == []) == right


def test_every_pair_of_neighbours_is_compared(tokens: Tokens) -> None:
    chain = [record([1], [2]), record([1, 3], [4]), record([1, 3, 4, 5], [6]), record([9], [1])]
    assert [finding.turn for finding in check_prefix(chain, [10, 20, 30, 40], 0, tokens)] == [20, 40]


def test_a_difference_at_an_end_has_no_id_on_one_side(tokens: Tokens) -> None:
    (finding,) = check_prefix([record([1, 2], [3, 4]), record([1, 2, 3], [5])], [1, 2], 0, tokens)
    assert finding.diff is not None
    assert (finding.diff.token_index, finding.diff.expected_id, finding.diff.actual_id) == (3, 4, None)


@pytest.mark.parametrize(
    ("one", "two", "at"),
    [([], [], None), ([1], [1], None), ([1], [2], 0), ([1, 2], [1], 1), ([1], [1, 2], 1), ([], [1], 0)],
)
def test_the_first_difference(one: list[int], two: list[int], at: int | None) -> None:
    assert first_difference(one, two) == at


def test_an_id_outside_the_vocabulary_is_shown_as_such(tokens: Tokens) -> None:
    hello = tokens.encode("Hello")
    assert tokens.decode([*hello, 999_999, -1, *hello]) == "Hello<?999999><?-1>Hello"


def test_a_missing_or_broken_tokenizer_is_infrastructure(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="no tokenizer at"):
        Tokens.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InfrastructureError, match="cannot be read"):
        Tokens.load(tmp_path)


@pytest.mark.parametrize("name", ["tiktoken.model", "tokenizer.model"])
def test_a_tokenizer_that_is_not_read_is_named(name: str, tmp_path: Path) -> None:
    """Kimi's directories have no tokenizer.json: nothing of such a family passes."""
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InfrastructureError, match=f"has its tokenizer in {name}, which the verifier does not read"):
        Measure.load(tmp_path, "kimi26")


def test_special_ids_are_the_flagged_ones(tokens: Tokens) -> None:
    assert {tokens.decode([token_id]) for token_id in tokens.special_ids} >= {"<|im_start|>", "<|im_end|>"}
    assert tokens.encode("<think>")[0] not in tokens.special_ids


def test_a_text_that_the_template_rewrites_leaves_all_possible_roles(tokens: Tokens) -> None:
    ids = tokens.encode("nothing of it is verbatim")
    messages = [{"role": "tool", "content": "{}"}, {"role": "user", "content": "Hello"}]
    assert role_at([record(ids, [1], messages)], 2, tokens) == (0, "tool+user")
    assert role_at([record(ids, [1], [])], 2, tokens) == (0, "generation prompt")
    assert role_at([record(ids, [1], messages)], len(ids), tokens) == (0, "assistant")
