"""A reasoning parser that eats white space: the message says less than was sampled, and its render is another text.

The kept tokens stay right, so nothing of it is hard. It must be seen under its own name, and counted against the limit
that the family has for soft differences.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.base.terms import Lane
from runner.ledger.records import Finding, Severity
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.matrix.bench import Driven, drive, model_of

V1, V2, _ = Lane
PADDED, EATEN = Fault(Kind.PADDED, times=None), Fault(Kind.EATEN, times=None)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The model directory of a family."""
    root = tmp_path_factory.mktemp("models")
    return lambda family: model_of(family, root)


def rendered(driven: Driven, lane: Lane) -> list[Finding]:
    """The soft findings of the oracle's own render."""
    return [finding for finding in driven.findings(lane, Severity.SOFT) if finding.check == "render"]


def test_white_space_that_the_parser_eats_is_a_reasoning_boundary_and_over_the_limit_of_the_family(
    models: Callable[[str], Path], tmp_path: Path
) -> None:
    driven = drive("qwen3", models("qwen3"), tmp_path, lanes=[V1, V2], faults=[PADDED, EATEN])
    assert driven.outcomes() == {V1: "soft", V2: "soft"}
    for lane in (V1, V2):
        found, survived = rendered(driven, lane), driven.session(lane).transcript.path
        assert {finding.type for finding in found} == {"reasoning_boundary"}
        assert [finding.turn for finding in found] == [turn.turn for turn in survived], (
            "every turn lost its white space"
        )
        assert all(finding.role == "assistant" and finding.diff is not None for finding in found)
        assert driven.findings(lane, Severity.HARD) == []


def test_a_family_that_tolerates_it_passes_and_the_difference_stays_visible(
    models: Callable[[str], Path], tmp_path: Path
) -> None:
    driven = drive("nemotron3", models("nemotron3"), tmp_path, lanes=[V1], faults=[PADDED, EATEN])
    assert driven.cell(V1).limits.soft == 1.0
    assert driven.outcomes() == {V1: "pass"}
    assert {finding.type for finding in rendered(driven, V1)} == {"reasoning_boundary"}


@pytest.mark.parametrize(
    "faults", [[PADDED], [EATEN]], ids=["white space that is kept", "white space that the template writes again"]
)
def test_white_space_that_is_in_the_render_as_well_is_no_difference(
    faults: list[Fault], models: Callable[[str], Path], tmp_path: Path
) -> None:
    driven = drive("qwen3", models("qwen3"), tmp_path, lanes=[V1], faults=faults)
    assert driven.outcomes() == {V1: "pass"}
    assert driven.findings(V1, Severity.SOFT) == []
