"""What the README tells a reader to type is there to be typed."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_line_that_the_reader_breaks_is_the_one_that_adds_the_newline() -> None:
    [(old, new, path)] = re.findall(r"^sed -i 's/(.+?)/(.+?)/' (\S+)$", README, re.MULTILINE)
    code = (ROOT / path).read_text(encoding="utf-8")
    assert code.count(old) == 1
    broken = code.replace(old, new)
    compile(broken, path, "exec")
    assert "append(self._newline)" in code
    assert "append(self._newline)" not in broken


def test_every_make_target_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^|`|&& )make ([a-z][a-z0-9-]*)", README, re.MULTILINE))
    assert named <= targets, named - targets
    assert len(named) > 10
