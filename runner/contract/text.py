"""The outcome of the contracts as lines for people."""

from __future__ import annotations

from pathlib import Path

from runner.contract.checkout import drift_text
from runner.contract.compare import Comparison, Field
from runner.contract.flow import Scan
from runner.contract.result import ContractOutcome, ContractResult


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


def result_lines(result: ContractResult, directory: Path) -> list[str]:
    """The outcome of a contract, loudest first, and where its artifacts are."""
    lines = [f"contract {result.contract}: {result.outcome.value.upper()}"]
    if result.outcome is ContractOutcome.SKIPPED:
        lines.append(f"  NOTHING WAS CHECKED: {result.reason}")
    if result.pin.drift and result.pin.drift_accepted:
        lines.append(f"  DRIFT ACCEPTED: {drift_text(result.pin)}")
    if result.versions:
        counts = result.counts
        subtests = "subtests not reported"
        if counts.subtests_passed is not None:
            subtests = f"{counts.subtests_passed} subtests passed, {counts.subtests_failed} failed"
        lines.append(
            f"  {counts.collected} tests: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped,"
            f" {counts.xfailed} expected to fail, {counts.unfinished} unfinished; {subtests}; {result.seconds:.1f} s"
        )
    lines += [f"  - {problem}" for problem in result.problems]
    return [*lines, f"  artifacts: {directory}"]
