"""Every family of the matrix through its session servers, without containers: clean it passes, and a fault is seen.

The faults are of the kinds that a family can have: a joint that is not the template's, and a template that says other
words than it should. The second one is in the server's own reading as well, so that its own comparison is content;
only the oracle's reading, which is not the server's, finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.base.terms import Lane, WireFormat
from runner.ledger.records import Severity
from runner.plan.families import load_families
from tests.scripted_engine.dialects import DIALECTS
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.matrix.bench import FAMILIES, Codec, Spoil, drive, model_of, row

from session_server.core.tokens import pack  # isort: skip

V1, V2, ANTHROPIC = Lane


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The model directory of a family."""
    root = tmp_path_factory.mktemp("models")
    return lambda family: model_of(family, root)


def test_the_scripted_engine_speaks_every_family_with_its_parsers() -> None:
    families = load_families()
    assert set(DIALECTS) == {family.tito_model for family in families.values()} == set(families)
    for family in families.values():
        dialect = DIALECTS[family.tito_model]
        assert dialect.reasoning_parser == family.reasoning_parser
        assert dialect.tool_call_parser == family.tool_call_parser


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_passes_in_every_lane(family: str, models: Callable[[str], Path], tmp_path: Path) -> None:
    driven = drive(family, models(family), tmp_path)
    applicable = {lane: driven.cell(lane).applicable for lane in Lane}
    assert driven.outcomes() == {lane: "pass" if runs else "not-applicable" for lane, runs in applicable.items()}
    assert applicable[ANTHROPIC] == (family != "minimax_m27")
    for lane, runs in applicable.items():
        if not runs:
            assert "does not reliably honour a forced tool call" in driven.cell(lane).reason
            continue
        assert driven.findings(lane, Severity.HARD) == []
        assert {finding.check for finding in driven.findings(lane, Severity.NOTE)} <= {"parity", "scoring"}, (
            "the oracle knows the family's canonical form, and the server prints the tools as they were sent"
        )
        if lane.wire is WireFormat.OPENAI:
            assert driven.findings(lane, Severity.SOFT) == []


def lost(codec: Codec) -> None:
    """The joint lacks the newline that the template writes; GLM's keeps the opener that comes again."""
    codec.join = lambda stored: stored.continued(pack())  # type: ignore[method-assign]


def added(codec: Codec) -> None:
    """The joint has a newline that no template writes there."""
    rightly, newline = codec.join, codec.vocabulary.token_id("\n")

    def join(stored: Any) -> Any:
        return rightly(stored).extended(pack([newline]))

    codec.join = join  # type: ignore[method-assign]


JOINTS: dict[str, Spoil] = dict.fromkeys(FAMILIES, lost) | {"deepseekv4": added, "inkling": added}
"""DeepSeek and Inkling write nothing at a joint, so nothing can be lost there."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_joint_that_is_not_the_templates_is_hard(family: str, models: Callable[[str], Path], tmp_path: Path) -> None:
    driven = drive(family, models(family), tmp_path, lanes=[V2], spoil=JOINTS[family])
    assert driven.outcomes() == {V2: "hard"}
    found = [finding for finding in driven.findings(V2, Severity.HARD) if finding.check == "render"]
    assert {finding.type for finding in found} <= {"special_token_count", "special_token_type", "non_assistant_text"}
    first = found[0]
    assert first.turn is not None
    assert first.turn >= 2, "the first prompt has no joint"
    assert first.diff is not None


def other_words(codec: Codec) -> None:
    """The renderer says other words than the user, and the same words whenever it is asked."""
    rightly = codec._renderer.render

    def render(*messages: Any, **options: Any) -> str:
        return rightly(*messages, **options).replace("Now check the weather", "Now  check the weather")

    codec._renderer.render = render  # type: ignore[method-assign]


@pytest.mark.parametrize("family", FAMILIES)
def test_words_that_the_server_itself_believes_in_are_hard(
    family: str, models: Callable[[str], Path], tmp_path: Path
) -> None:
    driven = drive(family, models(family), tmp_path, lanes=[V1], spoil=other_words)
    assert driven.session(V1).view.metadata.tito_session_mismatch == [], "its own comparison is content"
    assert driven.outcomes() == {V1: "hard"}
    (finding,) = [finding for finding in driven.findings(V1, Severity.HARD) if finding.check == "render"]
    assert finding.type == "non_assistant_text"
    assert "Now  check" in finding.message


@pytest.mark.parametrize("family", FAMILIES)
def test_a_token_that_the_engine_lost_is_hard_in_every_family(
    family: str, models: Callable[[str], Path], tmp_path: Path
) -> None:
    driven = drive(family, models(family), tmp_path, lanes=[V1], faults=[Fault(Kind.DROP_TOKEN, turn=2)])
    assert driven.outcomes() == {V1: "hard"}
    assert {finding.turn for finding in driven.findings(V1, Severity.HARD)} == {2}


def test_a_directory_that_names_an_unknown_dialect_is_refused(models: Callable[[str], Path], tmp_path: Path) -> None:
    for name in ("tokenizer.json", "config.json"):
        text = (models("glm47") / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace('"glm47"', '"klingon"'), encoding="utf-8")
    with pytest.raises(ValueError, match="'klingon'; the scripted engine speaks qwen3, qwen35"):
        ScriptedEngine(tmp_path)


def test_a_plan_of_the_scripted_engine_holds_every_family_and_says_so() -> None:
    for family in FAMILIES:
        plan = row(family)
        assert [lease.engine.value for lease in plan.leases] == ["scripted"]
        assert [cell.lane for cell in plan.cells] == list(Lane)
