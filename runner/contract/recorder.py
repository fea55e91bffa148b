"""A pytest plugin that writes down, line by line, what happens to each test of a checkout.

It runs inside another interpreter, copied to a directory of its own, so it knows nothing but pytest. Each line is
written as it happens: after a time-out or a crash the file still says how far the run came and which test was running.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

RECORD = "CONTRACT_RECORD"
"""Variable that names the file."""


def _write(**line: Any) -> None:
    with Path(os.environ[RECORD]).open("a", encoding="utf-8") as record:
        record.write(json.dumps(line) + "\n")


def pytest_sessionstart(session: Any) -> None:
    """Which pytest, and whether it reports subtests one by one."""
    import pytest

    _write(
        kind="start",
        pytest=pytest.__version__,
        subtests=session.config.pluginmanager.hasplugin("subtests"),
        python=".".join(map(str, __import__("sys").version_info[:3])),
    )


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be collected."""
    if report.failed:
        _write(kind="uncollected", node=report.nodeid, text=report.longreprtext)


def pytest_collection_finish(session: Any) -> None:
    """Every test that was found."""
    for item in session.items:
        _write(kind="collected", node=item.nodeid, file=str(item.path))


def pytest_runtest_logstart(nodeid: str) -> None:
    """A test begins."""
    _write(kind="begin", node=nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """A phase of a test, or one of its subtests, ended."""
    _write(
        kind="report",
        node=report.nodeid,
        phase=report.when,
        outcome=report.outcome,
        seconds=report.duration,
        subtest="subtest" in type(report).__name__.lower(),
        expected=hasattr(report, "wasxfail"),
        text=report.longreprtext if report.failed else "",
    )


def pytest_runtest_logfinish(nodeid: str) -> None:
    """A test ended."""
    _write(kind="end", node=nodeid)


def pytest_sessionfinish(exitstatus: int) -> None:
    """The run came to its end."""
    _write(kind="finish", code=int(exitstatus))
