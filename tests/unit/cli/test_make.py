"""The Makefile: what it lists is what it has, in columns that hold."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def listed() -> list[re.Match[str]]:
    """One match per line of `make help`: the target, and what it does."""
    # these tests may run below make themselves, which then says where it is
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", "help"], cwd=ROOT, env=plain, capture_output=True, text=True, check=True)
    found = [re.fullmatch(r"  make (?P<target>[a-z0-9-]+) +(?P<does>\S.*)", line) for line in done.stdout.splitlines()]
    assert found
    assert None not in found
    return [match for match in found if match is not None]


def test_help_lists_every_target_and_no_other() -> None:
    targets = re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE)
    assert sorted(match["target"] for match in listed()) == sorted(targets)
    phony = " ".join(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)).split()
    assert sorted(phony) == sorted(targets)


def test_no_target_is_too_long_for_its_column() -> None:
    assert len({match.start("does") for match in listed()}) == 1
