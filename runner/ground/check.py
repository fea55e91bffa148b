"""The result of looking at one thing, and a list of them as plain lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """OK, worth knowing, or in the way of a run."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One thing looked at. `mend` is the line that mends it, empty where nothing has to be done."""

    name: str
    status: Status
    found: str
    mend: str = ""


def worst(checks: Iterable[Check]) -> Status:
    """FAIL where one check failed, else WARN where one warned, else OK."""
    found = {check.status for check in checks}
    return next((status for status in (Status.FAIL, Status.WARN) if status in found), Status.OK)


def to_lines(checks: Iterable[Check]) -> list[str]:
    """One plain line per check, and one more per line that mends something."""
    listed = list(checks)
    width = max((len(check.name) for check in listed), default=0)
    lines = []
    for check in listed:
        lines.append(f"{check.status:<4}  {check.name:<{width}}  {check.found}")
        if check.mend:
            lines.append(f"{'':<4}  {'':<{width}}  -> {check.mend}")
    return lines
