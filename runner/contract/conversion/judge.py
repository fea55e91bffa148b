"""Whether the differences that were found are the listed ones: all of them, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.contract.conversion.differences import Difference


@dataclass(frozen=True)
class Listed:
    """A difference that is meant.

    `where` says of a case (name, body) whether it must occur there; `path` is a pattern for where in the result, and
    `holds` says of the two values (ours, SGLang's) whether they are what the `reason` speaks of.
    """

    reason: str
    where: Callable[[str, Mapping[str, Any]], bool]
    path: str
    holds: Callable[[Any, Any], bool]

    def explains(self, difference: Difference) -> bool:
        """Whether this is the difference that is listed."""
        return bool(re.fullmatch(self.path, difference.path)) and self.holds(difference.ours, difference.theirs)


def among(*names: str) -> Callable[[str, Mapping[str, Any]], bool]:
    """Exactly the cases of these names."""
    return lambda name, body: name in names


def judge(
    bodies: Mapping[str, Mapping[str, Any]], found: Mapping[str, Sequence[Difference]], table: Iterable[Listed]
) -> list[str]:
    """What is wrong, a line each: differences that are not listed, and listed ones that do not occur."""
    wrong: list[str] = []
    for name, body in bodies.items():
        here = [listed for listed in table if listed.where(name, body)]
        for difference in found[name]:
            if not any(listed.explains(difference) for listed in here):
                wrong.append(f"{name}: not listed: {difference}")
        for listed in here:
            if not any(listed.explains(difference) for difference in found[name]):
                wrong.append(f"{name}: listed, but not there: {listed.path}: {listed.reason}")
    for listed in table:
        if not any(listed.where(name, body) for name, body in bodies.items()):
            wrong.append(f"no case has the listed difference {listed.path}: {listed.reason}")
    return wrong
