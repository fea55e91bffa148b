"""Runs SGLang's own test kit of its Anthropic endpoint against the engine of the image that this lies in.

Inside a container: starts the engine as the image does, waits until it answers, runs every test of the kit, and writes
one JSON line per event to stdout, in the format of the contract's record. It knows nothing of the host side.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
import traceback
import unittest
import urllib.request
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

KIT = "sglang.test.kits.anthropic_messages_kit"
MIXIN = "AnthropicMessagesMixin"
REASONING = "--reasoning-parser"
"""Left out: the kit expects text first in every reply, and with a parser the micro models' thinking comes before it."""
URL = "http://127.0.0.1:30000"
_POLL_SECONDS = 1.0


def write(**line: Any) -> None:
    """One event."""
    print(json.dumps(line), flush=True)


def wait_for_engine(engine: subprocess.Popen[bytes], seconds: float) -> str:
    """Nothing once the engine answers, or why it does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if engine.poll() is not None:
            return f"the engine ended with {engine.returncode} while it was starting"
        try:
            with urllib.request.urlopen(f"{URL}/health", timeout=5):  # noqa: S310 - our own address
                return ""
        except OSError:
            time.sleep(_POLL_SECONDS)
    return f"the engine does not answer after {seconds:g} s"


def without(argv: Sequence[str], option: str) -> list[str]:
    """The command line without this option and its value. Raises ValueError where it is not there."""
    at = list(argv).index(option)
    return [*argv[:at], *argv[at + 2 :]]


class Recording(unittest.TestResult):
    """Writes each test down as it begins and ends."""

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        """It begins."""
        super().startTest(test)
        self._started = time.monotonic()
        self._outcome, self._text = "passed", ""
        write(kind="begin", node=node(test))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """A check of it did not hold."""
        super().addFailure(test, err)
        self._failed(err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """It broke off."""
        super().addError(test, err)
        self._failed(err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """It did not run."""
        super().addSkip(test, reason)
        self._outcome = "skipped"

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """One of its cases ended."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(err)

    def _failed(self, err: Any) -> None:
        self._outcome = "failed"
        self._text += "".join(traceback.format_exception(*err))

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """It ended."""
        super().stopTest(test)
        seconds = time.monotonic() - self._started
        report = {"phase": "call", "outcome": self._outcome, "seconds": seconds, "text": self._text}
        write(kind="report", node=node(test), subtest=False, expected=False, **report)
        write(kind="end", node=node(test))


def node(test: unittest.TestCase) -> str:
    """The test's own name."""
    return test.id().rpartition(".")[2]


def run(mixin: type, model: str) -> int:
    """Run every test of the kit's mixin against the engine; 0 where all passed."""
    case = type("Kit", (mixin, unittest.TestCase), {"base_url": URL, "api_key": "none", "model": model})
    names = unittest.defaultTestLoader.getTestCaseNames(case)
    for name in names:
        write(kind="collected", node=name, file=KIT)
    result = Recording()
    unittest.TestSuite(map(case, names)).run(result)
    return 0 if result.wasSuccessful() else 1


def main() -> int:
    """Start, wait, run, end."""
    versions = {"sglang": version("sglang"), "anthropic": version("anthropic")}
    write(kind="start", python=platform.python_version(), subtests=False, **versions)
    command = import_module("serve.command")  # the engine image's own package
    chosen = import_module("serve.settings").load()
    arguments = without(command.argv(chosen), REASONING)
    environment = {**os.environ, **command.environment(chosen)}
    engine = subprocess.Popen([sys.executable, "-m", command.MODULE, *arguments], env=environment, stdout=sys.stderr)
    try:
        problem = wait_for_engine(engine, float(os.environ["KIT_READY_SECONDS"]))
        if problem:
            write(kind="broken", text=problem)
            return 3
        os.environ.update(command.ENVIRONMENT)
        try:
            mixin = getattr(import_module(KIT), MIXIN)
        except (ImportError, AttributeError) as error:
            write(kind="uncollected", node=KIT, text=f"{type(error).__name__}: {error}")
            return 2
        code = run(mixin, os.environ.get("FAMILY", "qwen3"))
        write(kind="finish", code=code)
        return code
    finally:
        engine.terminate()
        engine.wait(timeout=20)


if __name__ == "__main__":
    sys.exit(main())
