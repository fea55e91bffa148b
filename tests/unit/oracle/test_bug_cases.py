"""docs/bug-cases.md names tests that exist, for every fault that the runner has to detect."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "docs" / "bug-cases.md"
REQUIRED = {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 16, 17, 18, 20, 23, 24, 29, 30, 31, 34, 35}
"""The faults that runner and oracle have to detect; the other numbers are the session server's or the environment's."""
_TEST = re.compile(r"tests/\S+\.py::[^\s\[|]+(?:\[[^\]]*\])?")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    number: int
    faulty: list[str]
    clean: list[str]


def rows(text: str) -> list[Row]:
    """The table's lines. Raises ValueError for one that is not whole."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or not cells[0].isdigit():
            continue
        if len(cells) != 6 or not all(cells):
            raise ValueError(f"not six cells: {line}")
        found.append(Row(int(cells[0]), _TEST.findall(cells[4]), _TEST.findall(cells[5])))
    return found


def unknown(named: set[str], collected: set[str]) -> set[str]:
    """Named tests that are not there; a name without brackets stands for all its cases."""
    known = collected | {name.partition("[")[0] for name in collected}
    return named - known


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The ids of all tests in the files that the table names."""
    files = sorted({name.partition("::")[0] for row in rows(TABLE.read_text()) for name in (*row.faulty, *row.clean)})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_every_fault_has_one_line_with_a_test_that_puts_it_in_and_a_clean_twin() -> None:
    table = rows(TABLE.read_text())
    assert [row.number for row in table] == sorted(REQUIRED)
    for row in table:
        assert row.faulty, f"{row.number} has no test with the fault"
        assert row.clean, f"{row.number} has no clean twin"


def test_every_test_in_the_table_exists(collected: set[str]) -> None:
    named = {name for row in rows(TABLE.read_text()) for name in (*row.faulty, *row.clean)}
    assert unknown(named, collected) == set()


def test_a_test_that_is_gone_is_noticed() -> None:
    there = {"tests/a.py::test_one", "tests/a.py::test_two[x]"}
    assert unknown({"tests/a.py::test_one", "tests/a.py::test_two", "tests/a.py::test_two[x]"}, there) == set()
    gone = {"tests/a.py::test_two[y]", "tests/a.py::test_three", "tests/b.py::test_one"}
    assert unknown(gone, there) == gone


def test_a_line_that_is_not_whole_is_refused() -> None:
    with pytest.raises(ValueError, match="not six cells"):
        rows("| 7 | x | y |")
