"""The class of cause of a broken continuity, each by the fault that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.oracle.conftest import Case

Snapshot = dict[str, Any]


def causes(case: Case, alter: Callable[[Snapshot], object]) -> set[str]:
    """Classes of the finding between records 2 and 3, where the prompt of record 3 was altered."""
    findings = [f for f in case.judged(alter) if f.check == "prefix"]
    turn = case.transcript.path[3].turn
    return {finding.type for finding in findings if finding.turn == turn}


def test_text_that_was_tokenized_again(session: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        request = snapshot["records"][3]["request"]
        request["input_ids"] = session.tokens.encode(session.tokens.decode(request["input_ids"]))

    assert causes(session, alter) == {"re_tokenized"}


def test_a_newline_that_a_template_lost(session: Case) -> None:
    """The canonical split would differ earlier already, so only ids after the last reply are touched."""

    def alter(snapshot: Snapshot) -> None:
        prompt = snapshot["records"][3]["request"]["input_ids"]
        at = len(snapshot["records"][1]["request"]["input_ids"]) - 4
        assert session.tokens.decode(prompt[at - 1 : at + 1]) == "<|im_end|>\n"
        del prompt[at]

    assert causes(session, alter) == {"re_templated"}


def last_sampled(snapshot: Snapshot) -> int:
    record = snapshot["records"][2]
    meta = record["response"]["choices"][0]["meta_info"]
    return len(record["request"]["input_ids"]) + len(meta["output_token_logprobs"]) - 1


@pytest.mark.parametrize(
    "change",
    [
        lambda ids, at: ids.pop(at),
        lambda ids, at: ids.__setitem__(at, ids[at] - 1),
        lambda ids, at: ids.insert(at, ids[at - 1]),
    ],
    ids=["missing", "another", "something before it"],
)
def test_the_end_of_a_sampled_turn(session: Case, change: Callable[[list[int], int], object]) -> None:
    assert causes(session, lambda s: change(s["records"][3]["request"]["input_ids"], last_sampled(s))) == {"stop_token"}


def test_a_turn_that_was_written_again_from_its_parsed_message(session: Case) -> None:
    """The thinking keeps its words, the parser ate the white space: another text, the same messages."""

    def alter(snapshot: Snapshot) -> None:
        prompt = snapshot["records"][3]["request"]["input_ids"]
        prompt[last_sampled(snapshot) - 10] += 1

    assert causes(session, alter) == {"parser"}


def test_messages_that_a_client_or_server_rewrote(session: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        request = snapshot["records"][3]["request"]
        request["messages"][2]["reasoning_content"] = None
        request["input_ids"][last_sampled(snapshot) - 10] += 1

    assert causes(session, alter) == {"history_rewritten"}

    def shorter(snapshot: Snapshot) -> None:
        request = snapshot["records"][3]["request"]
        del request["messages"][2:]
        request["input_ids"][230] += 1

    assert causes(session, shorter) == {"history_rewritten"}
