"""The conversion gate against made checkouts: each way to fail is named, and only a whole, clean run passes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from runner.base.terms import ExitCode
from runner.cli.contract import check_sglang
from runner.contract.checkout import PINNED_COMMIT, TEST_FILES, configuration, read_pin
from runner.contract.result import ContractOutcome, ContractResult, write_result
from runner.contract.sglang import Order, check
from runner.ground.shell import Result, run

PASSING = """
import unittest
import sglang

class TestIt(unittest.TestCase):
    def test_from_the_checkout(self):
        self.assertEqual(sglang.WHO, "checkout")
    def test_cases(self):
        for case in range(3):
            with self.subTest(case=case):
                self.assertGreaterEqual(case, 0)
"""


class Checkout:
    """A made checkout: SGLang's package, the two test files, and the commit in the form of an unpacked archive."""

    def __init__(self, root: Path) -> None:
        self.root = root / "checkout"
        self.directory = root / "artifacts"
        self.directory.mkdir()
        self.write("python/sglang/__init__.py", "WHO = 'checkout'\n")
        for name in TEST_FILES:
            self.write(name, PASSING)
        self.write(".git_archival.txt", f"node: {PINNED_COMMIT}{'0' * 32}\n")

    def write(self, name: str, text: str) -> None:
        """Write one file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def check(self, **changes: Any) -> ContractResult:
        """Run the gate on it."""
        order = Order(root=self.root, directory=self.directory, run_id="r", interpreter=sys.executable, **changes)
        return check(order)

    def git(self, *arguments: str) -> str:
        """One git command in it."""
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", "-C", str(self.root), *identity, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self) -> str:
        """Make it a git checkout; returns its commit."""
        (self.root / ".git_archival.txt").unlink()
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "all")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout whose tests pass."""
    return Checkout(tmp_path)


def problem(result: ContractResult) -> str:
    """The only problem of a failed result."""
    assert result.outcome is ContractOutcome.FAIL
    assert len(result.problems) == 1, result.problems
    return result.problems[0]


def test_a_checkout_whose_tests_pass_is_counted_subtests_included(checkout: Checkout) -> None:
    result = checkout.check()
    assert (result.outcome, result.problems) == (ContractOutcome.PASS, ())
    assert (result.counts.collected, result.counts.passed, result.counts.failed) == (4, 4, 0)
    assert (result.counts.subtests_passed, result.counts.subtests_failed) == (6, 0)
    assert result.seconds > 0
    assert "4 passed" in (checkout.directory / "output.log").read_text(encoding="utf-8")


def test_a_failing_test_is_named_with_what_it_said(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[0], PASSING + "    def test_bad(self):\n        self.assertEqual(1, 2)\n")
    result = checkout.check()
    assert problem(result) == f"failed: {TEST_FILES[0]}::TestIt::test_bad: AssertionError: 1 != 2"
    assert (result.counts.passed, result.counts.failed) == (4, 1)


def test_a_failing_subtest_fails_its_test_and_is_counted(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[1], PASSING.replace("GreaterEqual(case, 0)", "GreaterEqual(case, 1)"))
    result = checkout.check()
    assert problem(result).startswith(f"failed: {TEST_FILES[1]}::TestIt::test_cases: AssertionError: 0 not greater")
    assert (result.counts.subtests_passed, result.counts.subtests_failed) == (5, 1)


def test_an_error_in_the_setup_of_a_test_is_a_failure(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[0], PASSING + "    def setUp(self):\n        raise OSError('no disk')\n")
    result = checkout.check()
    assert result.outcome is ContractOutcome.FAIL
    assert all("OSError: no disk" in one for one in result.problems)


@pytest.mark.parametrize("name", TEST_FILES)
def test_a_missing_file_is_named_and_nothing_runs(checkout: Checkout, name: str) -> None:
    (checkout.root / name).unlink()
    result = checkout.check()
    assert problem(result).startswith(f"missing file: {name} is not in {checkout.root}")
    assert result.counts.collected == 0


def test_files_under_other_names_can_be_given(checkout: Checkout) -> None:
    (checkout.root / TEST_FILES[0]).rename(checkout.root / "test_moved.py")
    result = checkout.check(files=("test_moved.py", TEST_FILES[1]))
    assert result.outcome is ContractOutcome.PASS
    assert {test.file for test in result.tests} == {"test_moved.py", TEST_FILES[1]}


def test_a_syntax_error_is_named_with_its_file(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[0], "def broken(:\n")
    said = problem(checkout.check())
    assert said.startswith(f"cannot be collected: {TEST_FILES[0]}: ")
    assert "SyntaxError" in said


def test_a_package_that_the_interpreter_lacks_is_named(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[0], "import a_package_that_is_not_there\n")
    said = problem(checkout.check())
    assert "cannot be collected" in said
    assert "No module named 'a_package_that_is_not_there'" in said


@pytest.mark.parametrize("both", [False, True], ids=["one file", "both files"])
def test_a_file_without_tests_is_named_although_pytest_may_be_content(checkout: Checkout, both: bool) -> None:
    for name in TEST_FILES if both else TEST_FILES[:1]:
        checkout.write(name, "x = 1\n")
    result = checkout.check()
    assert result.problems[: 2 if both else 1] == tuple(
        f"no test collected: {name} has none" for name in (TEST_FILES if both else TEST_FILES[:1])
    )
    assert result.exit_code is ExitCode.VERIFICATION_FAILED


def test_a_file_whose_tests_are_all_skipped_proves_nothing(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[0], PASSING.replace("class", "@unittest.skip('not here')\nclass"))
    assert problem(checkout.check()) == f"no test ran: all 2 tests of {TEST_FILES[0]} were skipped"


def test_a_hang_is_ended_and_the_test_is_named(checkout: Checkout) -> None:
    hangs = "import pathlib, threading\ndef test_waits_for_ever():\n    pathlib.Path('begun').touch()\n"
    checkout.write(TEST_FILES[1], hangs + "    threading.Event().wait()\n")

    def until_it_hangs(argv: Sequence[str], **options: Any) -> Result:
        """The real thing; only that time is up is told by the test itself, not by a clock."""
        if "-m" not in argv:
            return run(argv, **options)
        over = threading.Event()
        watch = threading.Thread(target=lambda: wait_for(checkout.root / "begun", over))
        watch.start()
        done = run(argv, **options, cancel=over)
        watch.join()
        return replace(done, timed_out=True)

    order = Order(checkout.root, checkout.directory, "r", sys.executable, timeout=300)
    result = check(order, until_it_hangs)
    assert problem(result) == f"time-out: stopped after 300 s while {TEST_FILES[1]}::test_waits_for_ever was running"
    assert (result.counts.passed, result.counts.unfinished) == (2, 1)


def wait_for(path: Path, then: threading.Event) -> None:
    """Set `then` when the file is there."""
    while not path.exists():
        then.wait(0.05)
    then.set()


def test_a_run_that_leaves_with_0_before_its_end_does_not_pass(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[0], "import os\ndef test_leaves():\n    os._exit(0)\n")
    said = problem(checkout.check())
    assert said.startswith(f"pytest ended with 0 before the end of its run while {TEST_FILES[0]}::test_leaves was")


def test_a_run_that_ends_badly_after_its_tests_does_not_pass(checkout: Checkout) -> None:
    checkout.write("test/conftest.py", "def pytest_unconfigure():\n    import os\n    os._exit(7)\n")
    assert problem(checkout.check()).startswith("pytest ended with 7")


def test_nothing_of_our_environment_reaches_the_tests(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("FAMILY", "ours")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    text = "import os, importlib.util\n\ndef test_clean():\n"
    text += "    assert 'FAMILY' not in os.environ\n    assert importlib.util.find_spec('runner') is None\n"
    checkout.write(TEST_FILES[0], text)
    result = checkout.check()
    assert result.problems == ()


def test_an_sglang_from_elsewhere_is_not_tested_by_mistake(checkout: Checkout) -> None:
    def answers(argv: Sequence[str], **_: Any) -> Result:
        return Result(tuple(argv), 0, "pytest True\nsglang /usr/lib/python3/sglang/__init__.py\n")

    said = problem(check(Order(checkout.root, checkout.directory, "r", sys.executable), answers))
    assert said == (
        "sglang would be imported from /usr/lib/python3/sglang/__init__.py, not from the checkout's python/sglang"
    )


def test_an_interpreter_without_pytest_is_named(checkout: Checkout) -> None:
    def answers(argv: Sequence[str], **_: Any) -> Result:
        return Result(tuple(argv), 0, "pytest False\nsglang None\n")

    said = problem(check(Order(checkout.root, checkout.directory, "r", "/usr/bin/bare"), answers))
    assert said.startswith("the interpreter /usr/bin/bare has no pytest")


def test_a_checkout_without_the_package_is_named(checkout: Checkout) -> None:
    (checkout.root / "python/sglang/__init__.py").unlink()
    assert problem(checkout.check()).endswith("is no checkout of SGLang: it has no python/sglang/__init__.py")


def test_an_interpreter_that_does_not_run_is_named(checkout: Checkout) -> None:
    order = Order(root=checkout.root, directory=checkout.directory, run_id="r", interpreter="/no/such/python")
    assert problem(check(order)).startswith("the interpreter /no/such/python does not run")


def test_what_is_no_checkout_is_named(checkout: Checkout, tmp_path: Path) -> None:
    order = Order(root=tmp_path / "absent", directory=checkout.directory, run_id="r", interpreter=sys.executable)
    assert problem(check(order)) == f"SGLANG_SOURCE_ROOT={tmp_path / 'absent'} is not a directory"


def test_another_commit_is_a_failure_that_names_both(checkout: Checkout) -> None:
    head = checkout.commit()
    result = checkout.check()
    said = problem(result)
    assert said.startswith(
        f"pin drift: the contract is pinned to {PINNED_COMMIT}, but this checkout is at {head} (git)"
    )
    assert "--accept-drift" in said
    assert result.counts.collected == 0


def test_an_accepted_drift_runs_and_is_told_in_every_report(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = checkout.commit()
    monkeypatch.setenv("ARTIFACTS", str(tmp_path / "runs"))
    code = check_sglang(checkout.root, files=(), python=None, timeout=60, accept_drift=True)
    assert code is ExitCode.OK
    assert f"DRIFT ACCEPTED: pin drift: the contract is pinned to {PINNED_COMMIT}" in capsys.readouterr().out
    (directory,) = (tmp_path / "runs").iterdir()
    result = ContractResult.model_validate_json((directory / "contract.json").read_bytes())
    assert (result.pin.found, result.pin.drift, result.pin.drift_accepted) == (head, True, True)
    suite = ElementTree.parse(directory / "junit.xml").getroot()[0]  # noqa: S314 - our own file
    told = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert told["drift accepted"] == "true"
    assert (told["passed"], told["subtests_passed"]) == ("4", "6")


def test_the_pinned_commit_is_no_drift_until_a_tracked_file_is_changed(checkout: Checkout) -> None:
    head = checkout.commit()
    assert not read_pin(checkout.root, expected=head[:8]).drift
    checkout.write("python/sglang/__init__.py", "WHO = 'changed'\n")
    pin = read_pin(checkout.root, expected=head[:8])
    assert (pin.changed, pin.drift) == (True, True)


def test_the_repository_around_a_checkout_is_not_taken_for_its_commit(tmp_path: Path) -> None:
    outer = Checkout(tmp_path)
    outer.commit()
    inner = outer.root / "vendored"
    (inner / "python/sglang").mkdir(parents=True)
    assert read_pin(inner).found is None
    (inner / "python/sglang/_version.py").write_text(f"__commit_id__ = commit_id = 'g{PINNED_COMMIT}1'\n")
    pin = read_pin(inner)
    assert (pin.told_by, pin.drift) == ("python/sglang/_version.py", False)


def test_a_checkout_that_does_not_say_its_commit_is_a_drift(checkout: Checkout) -> None:
    (checkout.root / ".git_archival.txt").unlink()
    assert "does not say its commit" in problem(checkout.check())


def test_only_the_checkouts_own_configuration_of_pytest_counts(checkout: Checkout) -> None:
    (checkout.root.parent / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    assert configuration(checkout.root, TEST_FILES) is None
    checkout.write("pyproject.toml", "[project]\n")
    assert configuration(checkout.root, TEST_FILES) is None
    checkout.write("test/pytest.ini", "[pytest]\n")
    assert configuration(checkout.root, TEST_FILES) == checkout.root / "test/pytest.ini"


@pytest.mark.parametrize(("ci", "code", "word"), [("", 0, "SKIPPED"), ("true", 1, "FAIL")])
def test_without_a_checkout_it_is_skipped_here_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], ci: str, code: int, word: str
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    assert check_sglang(None, files=(), python=None, timeout=60, accept_drift=False) == code
    said = capsys.readouterr().out
    assert said.startswith(f"contract sglang-conversion: {word}\n")
    assert "SGLANG_SOURCE_ROOT is not set" in said
    (directory,) = tmp_path.iterdir()
    xml = (directory / "junit.xml").read_text(encoding="utf-8")
    assert ("<skipped" in xml, "<failure" in xml) == (code == 0, code == 1)


def test_a_failing_test_is_red_in_junit_with_its_name(checkout: Checkout) -> None:
    checkout.write(TEST_FILES[0], PASSING + "    def test_bad(self):\n        self.fail('\\x00 bad')\n")
    write_result(checkout.check(), checkout.directory)
    suite = ElementTree.parse(checkout.directory / "junit.xml").getroot()[0]  # noqa: S314 - our own file
    red = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert red == ["the gate", f"{TEST_FILES[0]}::TestIt::test_bad"]
    assert (suite.get("failures"), suite.get("tests")) == ("2", "6")
