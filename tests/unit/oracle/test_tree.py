"""The tree of a v2 session against the agent's own account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from runner.agents.records import SessionView, Tree, read
from runner.oracle.tree import check_tree
from tests.unit.oracle.conftest import Case

Body = dict[str, Any]


def grown(case: Case) -> Body:
    """The tree of a right server after this conversation: a node per reply, retries and rollbacks as siblings."""
    nodes: list[Body] = []
    by_turn: dict[int | None, int | None] = {None: None}
    for turn in case.transcript.turns:
        for response_id, cut in [*((r.response_id, True) for r in turn.rejected), (turn.response_id, False)]:
            nodes.append(
                {
                    "id": len(nodes),
                    "parent": by_turn[turn.parent],
                    "truncated": cut,
                    "num_tokens": 1,
                    "response_id": response_id,
                }
            )
        by_turn[turn.turn] = len(nodes) - 1
    return {"nodes": nodes, "leaves": leaves(nodes)}


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
    body = grown(case)
    if alter is not None:
        alter(body)
    view = read(SessionView, orjson.dumps(case.snapshot), "records", "snapshot")
    return {finding.type for finding in check_tree(Tree.model_validate(body), view.records, case.transcript)}


def test_a_right_tree_has_no_findings(session: Case) -> None:
    assert found(session) == set()
    assert len(grown(session)["leaves"]) == 5, "three rollbacks, one truncated reply and the end"


def test_a_tree_that_is_not_told_is_a_failure(session: Case) -> None:
    assert [finding.type for finding in check_tree(None, [], session.transcript)] == ["absent"]


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
def test_each_fault_of_a_tree_is_found(session: Case, alter: Callable[[Body], object], expected: set[str]) -> None:
    assert found(session, alter) == expected
