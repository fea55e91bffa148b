"""The accumulated ids: where they part from what was prompted and sampled, it is said whose token that is."""

from __future__ import annotations

from typing import Any

import pytest

from runner.oracle.finding import Finding
from tests.unit.oracle.conftest import Case


def accumulated(session: Case, index: int | None) -> Finding:
    """The finding where the id at this index is another one; None adds one at the end."""

    def alter(snapshot: dict[str, Any]) -> None:
        ids = snapshot["metadata"]["accumulated_token_ids"]
        if index is None:
            ids.append(3)
        else:
            ids[index] += 1

    assert not [finding for finding in session.judged() if finding.type == "accumulated"]
    (finding,) = [finding for finding in session.judged(alter) if finding.type == "accumulated"]
    return finding


@pytest.mark.parametrize(("where", "role"), [("system", "system"), ("user", "user"), ("first", "assistant")])
def test_a_difference_in_the_prompt_has_the_role_of_its_message(session: Case, where: str, role: str) -> None:
    first = session.view.records[0].input_ids
    index = {"system": 5, "user": len(first) - 7, "first": len(first) + 2}[where]
    finding = accumulated(session, index)
    assert finding.role == role
    assert finding.diff is not None
    assert finding.diff.token_index == index
    assert f"at token {index}, which came with the {role} text of turn 1" in finding.message


def test_a_difference_in_what_was_sampled_last_is_the_assistants(session: Case) -> None:
    finding = accumulated(session, -2)
    assert finding.role == "assistant"
    assert f"assistant text of turn {finding.turn}" in finding.message


def test_an_id_behind_the_last_one_belongs_to_nobody(session: Case) -> None:
    finding = accumulated(session, None)
    assert finding.role is None
    assert "which came with" not in finding.message
