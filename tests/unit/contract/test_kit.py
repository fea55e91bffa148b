"""SGLang's Anthropic kit: what the container wrote is judged, and only a whole run of every test passes."""

from __future__ import annotations

import io
import json
import unittest
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from runner.contract.kit import driver
from runner.contract.kit.live import EXPECTED_TESTS, KitOrder, check_live, judge, tag
from runner.contract.result import ContractOutcome, ContractResult
from runner.ground.shell import Result


def order(tmp_path: Path, **changes: Any) -> KitOrder:
    """An order; nothing of it exists."""
    given = {"engine_image": "engine:1", "base_image": "base:1", "run_id": "r", "sglang": "0.5.23"}
    return KitOrder(directory=tmp_path, **(given | changes))


def written(
    *,
    tests: int = EXPECTED_TESTS,
    failing: str = "",
    sglang: str = "0.5.23",
    finish: bool = True,
    cut: int | None = None,
) -> str:
    """What the driver writes for these tests; `cut` keeps that many lines."""
    names = [f"test_{number}" for number in range(tests)]
    lines: list[dict[str, Any]] = [
        {"kind": "start", "python": "3.11", "subtests": False, "sglang": sglang, "anthropic": "0.75.0"}
    ]
    lines += [{"kind": "collected", "node": name, "file": "kit"} for name in names]
    for name in names:
        bad = name == failing
        lines.append({"kind": "begin", "node": name})
        report = {"phase": "call", "seconds": 0.5, "subtest": False, "expected": False}
        text = "Traceback\n  File x\nAssertionError: 'thinking' != 'text'\n" if bad else ""
        lines.append({"kind": "report", "node": name, "outcome": "failed" if bad else "passed", "text": text, **report})
        lines.append({"kind": "end", "node": name})
    if finish:
        lines.append({"kind": "finish", "code": int(bool(failing))})
    return "noise\n" + "".join(json.dumps(line) + "\n" for line in lines[:cut])


def judged(tmp_path: Path, text: str, code: int = 0, *, timed_out: bool = False) -> ContractResult:
    """The result of this output."""
    return judge(order(tmp_path), Result(("docker",), code, text, "log tail", 12.0, timed_out))


def test_a_whole_run_of_every_test_passes_and_is_counted(tmp_path: Path) -> None:
    result = judged(tmp_path, written())
    assert (result.outcome, result.problems) == (ContractOutcome.PASS, ())
    assert (result.counts.passed, result.counts.collected) == (EXPECTED_TESTS, EXPECTED_TESTS)
    assert result.versions == {"python": "3.11", "sglang": "0.5.23", "anthropic": "0.75.0"}


def test_a_failing_test_is_named_with_what_it_said(tmp_path: Path) -> None:
    result = judged(tmp_path, written(failing="test_3"), 1)
    assert result.problems == ("failed: test_3: AssertionError: 'thinking' != 'text'",)


def test_tests_that_went_away_are_noticed(tmp_path: Path) -> None:
    result = judged(tmp_path, written(tests=EXPECTED_TESTS - 1))
    assert result.problems == (f"{EXPECTED_TESTS - 1} tests were found, expected at least {EXPECTED_TESTS}",)


def test_a_run_that_breaks_off_names_the_test_that_was_running(tmp_path: Path) -> None:
    text = written(cut=1 + EXPECTED_TESTS + 4)
    (problem,) = judged(tmp_path, text, 137).problems
    assert problem.startswith("the kit ended with 137 before the end of its run while test_1 was running: log tail")


def test_a_time_out_names_the_test_that_was_running(tmp_path: Path) -> None:
    result = judged(tmp_path, written(cut=1 + EXPECTED_TESTS + 4), -15, timed_out=True)
    assert result.problems == ("time-out: stopped after 900 s while test_1 was running",)


def test_an_engine_that_does_not_start_is_the_problem(tmp_path: Path) -> None:
    line = json.dumps({"kind": "broken", "text": "the engine ended with 1 while it was starting"})
    assert judged(tmp_path, line, 3).problems == ("the engine ended with 1 while it was starting",)


def test_a_kit_that_cannot_be_imported_is_the_problem(tmp_path: Path) -> None:
    line = json.dumps({"kind": "uncollected", "node": driver.KIT, "text": "ImportError: no anthropic"})
    assert judged(tmp_path, line, 2).problems == (f"cannot be collected: {driver.KIT}: ImportError: no anthropic",)


def test_an_image_without_output_is_no_pass(tmp_path: Path) -> None:
    assert judged(tmp_path, "").problems == ("the kit ended with 0 before the end of its run: log tail",)


def test_another_sglang_than_the_pinned_one_is_named(tmp_path: Path) -> None:
    result = judged(tmp_path, written(sglang="0.6.0"))
    assert result.problems == ("the engine image has SGLang 0.6.0, and is pinned to 0.5.23",)


class Engine:
    """Stands for docker: says what was asked, answers as told."""

    def __init__(self, built: int = 0, there: int = 1) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._codes = {"image": there, "build": built, "run": 0, "rm": 0}

    def __call__(self, argv: Sequence[str], **_: Any) -> Result:
        """One command."""
        self.asked.append(tuple(argv))
        text = written() if argv[1] == "run" else ""
        return Result(tuple(argv), self._codes[argv[1]], text, "no space left" if argv[1] == "build" else "")


def test_the_container_is_removed_by_its_name_and_reaches_no_network(tmp_path: Path) -> None:
    engine = Engine()
    assert check_live(order(tmp_path), engine).outcome is ContractOutcome.PASS
    assert [argv[1] for argv in engine.asked] == ["image", "build", "run", "rm"]
    started, removed = engine.asked[2], engine.asked[3]
    assert removed == ("docker", "rm", "--force", "tito-r-kit")
    assert started[started.index("--network") :][:2] == ("--network", "none")
    assert "io.github.tito-e2e.run=r" in started
    assert (tmp_path / "output.log").read_text(encoding="utf-8").startswith("noise\n")


def test_an_image_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    engine = Engine(there=0)
    check_live(order(tmp_path), engine)
    assert [argv[1] for argv in engine.asked] == ["image", "run", "rm"]


def test_a_build_that_fails_is_the_problem_and_nothing_runs(tmp_path: Path) -> None:
    engine = Engine(built=1)
    (problem,) = check_live(order(tmp_path), engine).problems
    assert problem.startswith("the image of the kit could not be built")
    assert "no space left" in problem
    assert [argv[1] for argv in engine.asked] == ["image", "build"]


def test_the_images_name_follows_the_engine_below_it(tmp_path: Path) -> None:
    assert tag(order(tmp_path)) == tag(order(tmp_path))
    assert tag(order(tmp_path)) != tag(order(tmp_path, engine_image="engine:2"))


class Mixin:
    """A kit in small."""

    base_url: str
    model: str

    def test_good(self) -> None:
        assert (self.base_url, self.model) == (driver.URL, "qwen3")

    def test_bad(self) -> None:
        raise AssertionError("seen")

    def test_error(self) -> None:
        raise OSError("broken")

    def test_skipped(self) -> None:
        raise unittest.SkipTest("not here")


def test_the_driver_writes_every_test_down_in_the_form_that_is_judged(tmp_path: Path) -> None:
    said = io.StringIO()
    with redirect_stdout(said):
        assert driver.run(Mixin, "qwen3") == 1
    text = said.getvalue() + json.dumps({"kind": "finish", "code": 1})
    result = judged(tmp_path, text, 1)
    assert {test.name: test.outcome for test in result.tests} == {
        "test_bad": "failed",
        "test_error": "failed",
        "test_good": "passed",
        "test_skipped": "skipped",
    }
    assert result.problems[:3] == (
        "failed: test_bad: AssertionError: seen",
        "failed: test_error: OSError: broken",
        "did not run: test_skipped was skipped",
    )


def test_the_engine_is_started_without_its_reasoning_parser_and_with_the_rest() -> None:
    argv = ["--tool-call-parser", "qwen25", "--reasoning-parser", "qwen3", "--device", "cpu"]
    assert driver.without(argv, driver.REASONING) == ["--tool-call-parser", "qwen25", "--device", "cpu"]
    with pytest.raises(ValueError, match="reasoning"):
        driver.without(["--device", "cpu"], driver.REASONING)
