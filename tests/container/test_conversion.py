"""Our Anthropic conversion against SGLang's own, both as installed in the images; every meant difference is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.contract.conversion import gate
from runner.contract.conversion.recording import Recording, Side, changes, read, record, write
from runner.contract.result import ContractOutcome
from runner.ground.pin import pinned_sglang

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ours(images: dict[str, str]) -> Recording:
    return record(Side.OURS, images["session-server"], "test-ours", env={})


@pytest.fixture(scope="module")
def theirs(images: dict[str, str]) -> Recording:
    """SGLang's results for the whole corpus: one container without a network that imports it once."""
    return record(Side.THEIRS, images["engine-cpu"], "test-theirs", env={})


def test_both_sides_convert_the_corpus_and_part_only_where_it_is_listed(ours: Recording, theirs: Recording) -> None:
    result = gate.check(ours, theirs, run_id="r", sglang=pinned_sglang(ROOT), against=theirs)
    assert (result.problems, result.outcome) == ((), ContractOutcome.PASS)
    assert result.counts.passed == result.counts.collected == len(theirs.requests) + len(theirs.replies)


def test_a_recording_says_the_same_once_more(images: dict[str, str], theirs: Recording, tmp_path: Path) -> None:
    write(theirs, tmp_path / "conversion.json")
    again = record(Side.THEIRS, images["engine-cpu"], "test-again", env={})
    assert changes(read(tmp_path / "conversion.json"), again) == []
