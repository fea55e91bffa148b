"""The outcome of the contracts as lines for people."""

from __future__ import annotations

from pathlib import Path

from runner.contract.compare import Comparison, Field
from runner.contract.flow import Scan


def comparison_lines(outcome: Comparison, scan: Scan, source: Path, constructor: str) -> list[str]:
    """Every field with where it is read, what could not be followed, and the problems."""
    width = max((len(one.name) for one in outcome.fields), default=0)
    lines = [f"{source}: {len(outcome.fields)} fields are read off args in {scan.files} files"]
    for one in outcome.fields:
        places = ", ".join(str(read.place) for read in one.reads)
        lines.append(f"  {one.name:<{width}}  {need(one):<24}  {places}")
    lines += [f"  not followed: args at {one.place} {one.why}" for one in scan.unreadable]
    if not outcome.problems:
        lines.append(f"{constructor} gives exactly these fields")
        return lines
    count = len(outcome.problems)
    lines.append(f"{constructor} does not fit this source, {count} problem{'s' if count != 1 else ''}:")
    return lines + [f"  - {problem}" for problem in outcome.problems]


def need(one: Field) -> str:
    """`required`, or `optional` with what the server falls back to."""
    fallback = f", default {' / '.join(one.defaults)}" if one.defaults else ""
    return ("required" if one.required else "optional") + fallback
