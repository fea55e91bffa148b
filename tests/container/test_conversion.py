"""Our Anthropic conversion against SGLang's own, as installed in the engine image.

Every difference is listed with its reason in `conversion/listed.py`; one that is not listed fails, and so does a listed
one that is gone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.container.conversion import listed, ours, replies, requests
from tests.container.conversion.differences import Difference, compare
from tests.container.conversion.judge import Listed, among, judge

SCRIPT = Path(__file__).parent / "conversion" / "theirs.py"
VERSION = "0.5.23"
SECONDS = 300
"""Importing SGLang takes about ten seconds on a quiet machine; this only ends a hang."""

Json = dict[str, Any]


@pytest.fixture(scope="module")
def theirs(images: dict[str, str]) -> Json:
    """SGLang's results for the whole corpus: one container without a network that imports it once."""
    corpus = {
        "requests": {name: asdict(case) for name, case in requests.corpus().items()},
        "replies": {name: asdict(case) for name, case in replies.corpus().items()},
    }
    container = ["docker", "run", "--rm", "--interactive", "--network", "none", "--entrypoint", "python"]
    done = subprocess.run(
        [*container, images["engine-cpu"], "-c", SCRIPT.read_text()],
        input=json.dumps(corpus),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: Json = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_the_other_side_is_the_pinned_sglang(theirs: Json) -> None:
    assert theirs["version"] == VERSION


def test_the_corpus_is_large_enough_and_both_sides_convert_most_of_it(theirs: Json) -> None:
    for kind, least in (("requests", 60), ("replies", 40)):
        assert len(theirs[kind]) >= least
        assert sum("made" in outcome for outcome in theirs[kind].values()) >= least


def test_requests_become_what_sglang_makes_of_them_but_for_listed_differences(theirs: Json) -> None:
    corpus = requests.corpus()
    found = {name: compare(ours.convert_request(case), theirs["requests"][name]) for name, case in corpus.items()}
    _check({name: case.body for name, case in corpus.items()}, found, listed.REQUESTS)


def test_replies_become_what_sglang_makes_of_them_but_for_listed_differences(theirs: Json) -> None:
    corpus = replies.corpus()
    found = {name: compare(ours.convert_reply(case), theirs["replies"][name]) for name, case in corpus.items()}
    _check({name: case.body for name, case in corpus.items()}, found, listed.REPLIES)


def _check(bodies: Mapping[str, Json], found: Mapping[str, Sequence[Difference]], table: Sequence[Listed]) -> None:
    wrong = judge(bodies, found, table)
    assert not wrong, "\n".join(wrong)


BODIES: dict[str, Json] = {"a": {}, "b": {}}
ENTRY = Listed("why", among("a"), "x", lambda ours, theirs: ours == 1)


def test_a_listed_difference_in_its_place_is_fine() -> None:
    assert judge(BODIES, {"a": compare({"made": {"x": 1}}, {"made": {"x": 2}}), "b": []}, [ENTRY]) == []


@pytest.mark.parametrize(
    ("name", "made", "other", "word"),
    [
        pytest.param("b", {"x": 1}, {"x": 2}, "b: not listed", id="in another case"),
        pytest.param("a", {"x": 3}, {"x": 2}, "a: not listed", id="of other values"),
        pytest.param("a", {"x": 1, "y": 1}, {"x": 2}, "a: not listed: y", id="at another place too"),
        pytest.param("a", {"x": 1}, {"x": 1}, "a: listed, but not there", id="that is gone"),
        pytest.param("a", {"x": 1}, None, "a: not listed: refused", id="where one side refuses"),
    ],
)
def test_a_difference_is_reported(name: str, made: Json, other: Json | None, word: str) -> None:
    found: dict[str, list[Difference]] = {case: [] for case in BODIES}
    found[name] = compare({"made": made}, {"refused": "no"} if other is None else {"made": other})
    assert any(line.startswith(word) for line in judge(BODIES, found, [ENTRY]))


def test_an_entry_without_a_case_is_reported() -> None:
    assert any("no case has" in line for line in judge({"b": {}}, {"b": []}, [ENTRY]))


def test_a_tools_keys_are_compared_in_order() -> None:
    one, two = {"tools": [{"a": 1, "b": 2}]}, {"tools": [{"b": 2, "a": 1}]}
    assert [difference.path for difference in compare({"made": one}, {"made": two})] == ["tools[0](order)"]
    assert compare({"made": {"a": 1, "b": 2}}, {"made": {"b": 2, "a": 1}}) == []
