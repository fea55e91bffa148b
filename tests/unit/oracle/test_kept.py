"""What was seen in between: replies that are gone from the end's records, and replies that nobody read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.agents.records import Tree, TreeLeaf, TreeNode
from runner.agents.transcript import Kept, Transcript, TurnLog, Unseen
from runner.base.terms import WireFormat
from runner.oracle.kept import check_fresh, check_kept
from runner.oracle.tokens import Tokens
from runner.oracle.tree import check_tree

IDS = [5, 6, 7]


def log(number: int, parent: int | None, finish: str = "stop", **more: object) -> TurnLog:
    turn = TurnLog(
        turn=number,
        action="text",
        parent=parent,
        messages=[],
        reply={"role": "assistant", "content": "so"},
        response_id=f"reply-{number}",
        finish_reason=finish,
        prompt_tokens=10,
        completion_tokens=len(IDS),
        seconds=0.1,
    )
    return replace(turn, **more)  # type: ignore[arg-type]


def seen(number: int, finish: str = "stop", ids: list[int] | None = None) -> Kept:
    return Kept(records=1, response_id=f"reply-{number}", finish_reason=finish, output_ids=IDS if ids is None else ids)


def told(*turns: TurnLog, unseen: list[Unseen] | None = None) -> Transcript:
    transcript = Transcript(WireFormat.OPENAI, stream=False, seed=1)
    transcript.turns = list(turns)
    transcript.unseen = unseen or []
    return transcript


def types(transcript: Transcript, tokens: Tokens) -> list[str]:
    return [finding.type for finding in [*check_kept(transcript, tokens), *check_fresh(transcript)]]


def test_a_reply_that_is_kept_as_it_was_told_has_no_findings(tokens: Tokens) -> None:
    assert types(told(log(1, None, kept=seen(1)), log(2, 1)), tokens) == []


def test_a_200_that_is_not_the_last_record_is_found(tokens: Tokens) -> None:
    transcript = told(log(1, None), log(2, 1, kept=seen(1)))
    (finding,) = check_kept(transcript, tokens)
    assert (finding.type, finding.turn) == ("unrecorded", 2)
    assert "answered 200 with reply 'reply-2'" in finding.message


@pytest.mark.parametrize(
    ("finish", "kept", "budget", "expected"),
    [
        ("length", seen(1, "length"), 3, []),
        ("max_tokens", seen(1, "length"), 3, []),
        ("tool_calls", seen(1, "tool_calls"), 4, []),
        ("tool_calls", seen(1, "tool_calls"), 3, ["budget"]),
        ("tool_use", seen(1, "tool_calls"), 3, ["budget"]),
        ("end_turn", seen(1, "stop"), 3, ["budget"]),
        ("length", seen(1, "length"), 4, ["early_cut"]),
        ("length", seen(1, "length"), 2, ["over_budget"]),
        ("tool_calls", seen(1, "length"), 4, ["finish_reason"]),
        ("tool_calls", seen(1, "tool_calls", [5, 6]), 4, ["client_usage"]),
    ],
)
def test_a_reply_is_cut_exactly_when_it_fills_its_budget(
    tokens: Tokens, finish: str, kept: Kept, budget: int, expected: list[str]
) -> None:
    assert types(told(log(1, None, finish, budget=budget, kept=kept)), tokens) == expected


def test_a_full_budget_whose_last_token_ends_the_turn_may_be_finished(tokens: Tokens) -> None:
    end = max(tokens.special_ids)
    kept = seen(1, "tool_calls", [5, 6, end])
    assert types(told(log(1, None, "tool_calls", budget=3, kept=kept)), tokens) == []


def test_a_reply_that_comes_twice_is_found(tokens: Tokens) -> None:
    transcript = told(log(1, None), log(2, None, response_id="reply-1"), log(3, 2))
    (finding,) = check_fresh(transcript)
    assert (finding.type, finding.turn) == ("repeated", 1)


def test_a_lost_reply_that_is_served_again_is_no_new_generation(tokens: Tokens) -> None:
    unseen = Unseen(2, 1, [], recorded=True, kept=seen(2))
    assert types(told(log(1, None), log(2, 1), unseen=[unseen]), tokens) == ["repeated"]
    fresh = Unseen(2, 1, [], recorded=True, kept=seen(77))
    assert types(told(log(1, None), log(2, 1), unseen=[fresh]), tokens) == []


def test_a_begun_reply_of_which_no_record_is_there_is_found(tokens: Tokens) -> None:
    for kept in (seen(1), Kept(records=0)):
        unseen = Unseen(2, 1, [], recorded=True, kept=kept)
        assert types(told(log(1, None), log(2, 1), unseen=[unseen]), tokens) == ["unrecorded"]


def tree(*nodes: tuple[str, int | None]) -> Tree:
    """Nodes from (response id, parent); the leaves follow."""
    made = [
        TreeNode(id=at, parent=parent, truncated=False, num_tokens=1, response_id=name)
        for at, (name, parent) in enumerate(nodes)
    ]
    ends = [node.id for node in made if node.id not in {other.parent for other in made}]
    leaves = []
    for end in ends:
        way: list[int] = []
        at: int | None = end
        while at is not None:
            way.insert(0, at)
            at = made[at].parent
        leaves.append(TreeLeaf(node_id=end, path_node_ids=way))
    return Tree(nodes=made, leaves=leaves)


def grown(transcript: Transcript, *nodes: tuple[str, int | None]) -> list[str]:
    return [finding.type for finding in check_tree(tree(*nodes), [], transcript)]


def test_the_node_of_a_lost_reply_belongs_to_the_tree() -> None:
    transcript = told(log(1, None), log(2, 1), unseen=[Unseen(2, 1, [], recorded=True, kept=seen(77))])
    assert grown(transcript, ("reply-1", None), ("reply-77", 0), ("reply-2", 0)) == []
    assert grown(transcript, ("reply-1", None), ("reply-77", None), ("reply-2", 0)) == ["branch"]
    assert grown(transcript, ("reply-1", None), ("reply-2", 0)) == ["lost_node"]


def test_replies_that_were_begun_and_not_looked_at_are_counted_where_they_were_asked() -> None:
    transcript = told(log(1, None), log(2, 1), unseen=[Unseen(2, 1, [], recorded=True)])
    assert grown(transcript, ("reply-1", None), ("?", 0), ("reply-2", 0)) == []
    assert grown(transcript, ("reply-1", None), ("reply-2", 0)) == ["lost_node"]
    assert grown(transcript, ("reply-1", None), ("?", None), ("reply-2", 0)) == ["extra_node", "lost_node"]
    assert grown(transcript, ("reply-1", None), ("?", 0), ("??", 0), ("reply-2", 0)) == ["extra_node"]


def test_a_race_may_leave_a_node_or_none_and_never_two() -> None:
    transcript = told(log(1, None), unseen=[Unseen(1, None, [], recorded=False)])
    assert grown(transcript, ("reply-1", None)) == []
    assert grown(transcript, ("?", None), ("reply-1", None)) == []
    assert grown(transcript, ("?", None), ("??", None), ("reply-1", None)) == ["extra_node"]
