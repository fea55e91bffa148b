"""The tree of a v2 session against the agent's own account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.base.terms import Lane
from runner.oracle.measure import Measure
from runner.oracle.tree import check_tree
from tests.unit.agents.bench import view_of
from tests.unit.agents.scenarios.stage import other_matching
from tests.unit.oracle.conftest import Case, driven

Body = dict[str, Any]


def leaves(nodes: list[Body]) -> list[Body]:
    parents = {node["id"]: node["parent"] for node in nodes}
    found = []
    for end in sorted(set(parents) - set(parents.values())):
        way, at = [], end
        while at is not None:
            way.append(at)
            at = parents.get(at)
        found.append({"node_id": end, "path_node_ids": way[::-1]})
    return found


def found(case: Case, alter: Callable[[Body], object] | None = None) -> set[str]:
    """Types of the findings over the server's tree, altered by `alter` in a copy."""
    view = view_of(case.snapshot, (lambda snapshot: alter(snapshot["metadata"]["tree"])) if alter is not None else None)
    return {finding.type for finding in check_tree(view.metadata.tree, view.records, case.transcript)}


def test_the_tree_of_a_right_server_has_no_findings(grown: Case, messages: Case) -> None:
    assert found(grown) == set()
    assert len(grown.snapshot["metadata"]["tree"]["leaves"]) == 5, "three rollbacks, one truncated reply and the end"
    assert found(messages) == set()
    assert len(messages.snapshot["metadata"]["tree"]["leaves"]) == 2, "one superseded reply and the end"


def test_a_tree_that_is_not_told_is_a_failure(grown: Case) -> None:
    assert [finding.type for finding in check_tree(None, [], grown.transcript)] == ["absent"]


def regrow(body: Body) -> None:
    body["leaves"] = leaves(body["nodes"])


def fork(body: Body) -> None:
    """The reply of turn 8 starts a root of its own, as when a replay drops the reasoning."""
    body["nodes"][8]["parent"] = None
    regrow(body)


def lose(body: Body) -> None:
    body["nodes"].pop()
    regrow(body)


def add(body: Body) -> None:
    body["nodes"].append({**body["nodes"][0], "id": 99, "response_id": "uncalled"})
    regrow(body)


def double(body: Body) -> None:
    body["nodes"][1]["response_id"] = body["nodes"][0]["response_id"]


def hang_elsewhere(body: Body) -> None:
    body["nodes"][3]["parent"] = 0  # the truncated reply, under the first one
    regrow(body)


def other_way(body: Body) -> None:
    body["leaves"][-1]["path_node_ids"] = [0]


@pytest.mark.parametrize(
    ("alter", "expected"),
    [
        (fork, {"branch", "active_path"}),
        (lose, {"lost_node", "active_path"}),
        (add, {"extra_node"}),
        (double, {"response_id"}),
        (hang_elsewhere, {"branch"}),
        (lambda body: body["leaves"].pop(0), {"leaves"}),
        (other_way, {"active_path"}),
        (lambda body: body["leaves"].pop(), {"leaves", "active_path"}),
    ],
)
def test_each_fault_of_a_tree_is_found(grown: Case, alter: Callable[[Body], object], expected: set[str]) -> None:
    assert found(grown, alter) == expected


def test_a_server_that_drops_the_reasoning_of_a_replay_forks_at_every_turn(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_matching(monkeypatch, lambda stored, replayed, same: same(stored, {**replayed, "reasoning_content": None}))
    case = driven(Lane.V2_OPENAI, measure, stream=True, faults=[])
    nodes = case.snapshot["metadata"]["tree"]["nodes"]
    assert [node["parent"] for node in nodes] == [None] * 14
    forked = [finding.turn for finding in case.judged() if (finding.check, finding.type) == ("tree", "branch")]
    assert forked == [turn.turn for turn in case.transcript.turns if turn.parent is not None]
