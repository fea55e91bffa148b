"""Two recordings of a conversion: what is different is found, what is meant is listed, and what changed is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.contract.conversion import gate, listed, replies, requests
from runner.contract.conversion.differences import Difference, compare
from runner.contract.conversion.judge import Listed, among, judge
from runner.contract.conversion.recording import Outcome, Recording, Side, changes, read, record, shown, write
from runner.contract.result import ContractOutcome, ContractResult
from runner.ground.shell import Result

Json = dict[str, Any]

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


def recording(side: Side = Side.THEIRS, version: str = "0.5.23", **cases: Any) -> Recording:
    """A recording whose requests are `cases`; text is a refusal."""
    outcomes = {
        name: Outcome(refused=case) if isinstance(case, str) else Outcome(made=case) for name, case in cases.items()
    }
    return Recording(side=side, image="engine:1", version=version, requests=outcomes, replies={})


OLD = recording(plain={"stream": False}, bad="no model", gone={})


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        pytest.param({"plain": {"stream": False}, "bad": "no model", "gone": {}}, [], id="nothing"),
        pytest.param(
            {"plain": {"stream": True}, "bad": "no model", "gone": {}},
            ["request plain: stream: false -> true"],
            id="a value",
        ),
        pytest.param(
            {"plain": "no", "bad": "no model", "gone": {}},
            ['request plain: refused: (absent) -> "no"'],
            id="a refusal that is new",
        ),
        pytest.param(
            {"plain": {"stream": False}, "bad": {"x": 1}, "gone": {}},
            ['request bad: refused: "no model" -> (absent)'],
            id="a refusal that is gone",
        ),
        pytest.param(
            {"plain": {"stream": False}, "bad": "model?", "gone": {}},
            ['request bad: refused: "no model" -> "model?"'],
            id="the words of a refusal",
        ),
        pytest.param(
            {"plain": {"stream": False}, "bad": "no model", "more": {}},
            [
                'request gone: the case: "in the corpus" -> (absent)',
                'request more: the case: (absent) -> "in the corpus"',
            ],
            id="the corpus",
        ),
    ],
)
def test_what_changed_between_two_recordings_is_named(cases: Json, expected: list[str]) -> None:
    assert [str(change) for change in changes(OLD, recording(version="0.5.24", **cases))] == expected


def test_of_long_values_the_place_is_shown_where_they_part() -> None:
    same = "x" * 500
    text = shown(f"{same} role is wrong", f"{same} type is wrong")
    assert text.startswith("…x")
    assert "role is wrong" in text
    assert "type is wrong" in text
    assert len(text) < 200


def test_two_sides_are_no_two_versions() -> None:
    with pytest.raises(ValueError, match="sglang cannot be compared with one of session-server"):
        changes(OLD, recording(Side.OURS))


def test_a_recording_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "conversion.json"
    write(OLD, path)
    assert read(path) == OLD


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(None, "cannot be read: No such file", id="no file"),
        pytest.param("{}", "is no recording of a conversion: side: Field required", id="another file"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "conversion.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read(path)


class Container:
    """Answers `docker run` and `docker rm`; remembers what it was asked and what stdin held."""

    def __init__(self, stdout: str, code: int = 0) -> None:
        self.stdout = stdout
        self.code = code
        self.asked: list[tuple[str, ...]] = []
        self.corpus: Json = {}

    def __call__(self, argv: Sequence[str], *, stdin: Path | None = None, **_: Any) -> Result:
        self.asked.append(tuple(argv))
        if stdin is not None:
            self.corpus = json.loads(stdin.read_text())
        return Result(tuple(argv), self.code, self.stdout, "the log")


ANSWER = json.dumps({"version": "0.5.23", "requests": {"text": {"made": {}}}, "replies": {"text": {"refused": "no"}}})


def test_a_side_is_recorded_in_a_container_that_reaches_nothing_and_is_removed() -> None:
    container = Container(f"noise\n{ANSWER}")
    made = record(Side.THEIRS, "engine:1", "r", env={}, execute=container)
    assert (made.version, made.requests["text"].made, made.replies["text"].refused) == ("0.5.23", {}, "no")
    assert len(container.corpus["requests"]) == len(requests.corpus())
    start, remove = container.asked
    assert start[start.index("--network") :][:2] == ("--network", "none")
    assert remove == ("docker", "rm", "--force", "tito-r-sglang-conversion")


@pytest.mark.parametrize(
    ("stdout", "code", "said"),
    [
        pytest.param("", 1, "could not be recorded: .*ended with 1: the log", id="it failed"),
        pytest.param("", 0, "answered no recording", id="it said nothing"),
        pytest.param("words", 0, "answered no recording", id="it said something else"),
        pytest.param('{"version": "1"}', 0, "answered no recording", id="it said too little"),
    ],
)
def test_a_container_without_an_answer_is_an_error(stdout: str, code: int, said: str) -> None:
    with pytest.raises(InfrastructureError, match=said):
        record(Side.THEIRS, "engine:1", "r", env={}, execute=Container(stdout, code))


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests and a reply, no listed difference, no least number."""
    cases = {"plain": requests.Case(requests.ask()), "bad": requests.Case({})}
    monkeypatch.setattr(requests, "corpus", lambda: cases)
    monkeypatch.setattr(replies, "corpus", dict)
    monkeypatch.setattr(listed, "REQUESTS", ())
    monkeypatch.setattr(listed, "REPLIES", ())
    monkeypatch.setattr(gate, "LEAST", {"request": 1, "reply": 0})


def checked(theirs: Recording, **more: Any) -> ContractResult:
    """The gate's result for our side, which converts `plain` and refuses `bad`."""
    ours = recording(Side.OURS, "0.1.0", plain={"stream": False}, bad="no")
    return gate.check(ours, theirs, run_id="r", sglang="0.5.23", **more)


CLEAN = recording(plain={"stream": False}, bad="no model")


@pytest.mark.usefixtures("corpus")
def test_equal_conversions_pass_and_every_case_is_a_test() -> None:
    result = checked(CLEAN, against=CLEAN)
    assert (result.outcome, result.problems) == (ContractOutcome.PASS, ())
    assert [test.name for test in result.tests] == ["request plain", "request bad"]


@pytest.mark.usefixtures("corpus")
@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        pytest.param(
            recording(plain={"stream": True}, bad="no"), "request plain: not listed: stream: ours False", id="a value"
        ),
        pytest.param(recording(plain={"stream": False}, bad={}), "request bad: not listed: refused", id="a refusal"),
        pytest.param(recording(plain={"stream": False}), "request bad: not in both recordings", id="a missing case"),
        pytest.param(
            recording(plain="no", bad="no"), "SGLang converts 0 requests of the corpus", id="nothing to compare"
        ),
        pytest.param(
            recording(version="0.6.0", plain={"stream": False}, bad="no"),
            "the engine image has SGLang 0.6.0, and is meant to have 0.5.23",
            id="another version",
        ),
    ],
)
def test_what_is_not_listed_fails_by_name(theirs: Recording, said: str) -> None:
    result = checked(theirs)
    assert result.outcome is ContractOutcome.FAIL
    assert any(said in problem for problem in result.problems)


@pytest.mark.usefixtures("corpus")
def test_what_sglang_changed_since_another_recording_fails_by_name() -> None:
    older = recording(version="0.5.22", plain={"stream": False}, bad="what model")
    result = checked(CLEAN, against=older)
    assert result.problems == ('changed since SGLang 0.5.22: request bad: refused: "what model" -> "no model"',)
