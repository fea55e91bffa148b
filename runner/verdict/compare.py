"""What differs between two verdicts on one run, in sentences: the recorded one and one that was made anew.

Where the artifacts lie is no part of a verdict: the line that runs a cell again names their directory, and is left out.
"""

from __future__ import annotations

from runner.verdict.model import CellVerdict, SampleVerdict, Verdict

_DERIVED = frozenset({"exit_code", "cells", "problems"})
_OF_SAMPLES = frozenset({"samples"})


def differences(recorded: Verdict, replayed: Verdict) -> list[str]:
    """One sentence per sample, cell or property of the run that is not the same; empty when the verdicts are equal."""
    recorded, replayed = _placeless(recorded), _placeless(replayed)
    found = []
    before = {cell.cell: cell for cell in recorded.cells}
    after = {cell.cell: cell for cell in replayed.cells}
    for key in dict.fromkeys([*before, *after]):
        if key not in before or key not in after:
            found.append(f"{key} is in the {'replayed' if key in after else 'recorded'} verdict only")
        elif before[key] != after[key]:
            found += _cell(before[key], after[key])
    if recorded.problems != replayed.problems:
        found.append(f"problems of the run: recorded {recorded.problems or 'none'}, now {replayed.problems or 'none'}")
    names = _changed(recorded, replayed, leave_out=_DERIVED)
    if names:
        found.append(f"the run: recorded and replayed differ in {', '.join(names)}")
    if not found and recorded != replayed:
        found.append(f"exit code: recorded {int(recorded.exit_code)}, now {int(replayed.exit_code)}")
    return found


def _placeless(verdict: Verdict) -> Verdict:
    cells = [cell.model_copy(update={"reproduce": ""}) for cell in verdict.cells]
    return verdict.model_copy(update={"cells": cells})


def _cell(recorded: CellVerdict, replayed: CellVerdict) -> list[str]:
    found = []
    before = {sample.index: sample for sample in recorded.samples}
    after = {sample.index: sample for sample in replayed.samples}
    for index in dict.fromkeys([*before, *after]):
        if index not in before or index not in after:
            found.append(f"{recorded.cell} sample {index} is in one of the verdicts only")
        elif before[index] != after[index]:
            found.append(f"{recorded.cell} sample {index}: {_sample(before[index], after[index])}")
    if (recorded.outcome, recorded.failed) != (replayed.outcome, replayed.failed):
        found.append(f"{recorded.cell}: recorded {_outcome(recorded)}, now {_outcome(replayed)}")
    elif not found:
        names = ", ".join(_changed(recorded, replayed, leave_out=_OF_SAMPLES))
        found.append(f"{recorded.cell}: recorded and replayed differ in {names}")
    return found


def _sample(recorded: SampleVerdict, replayed: SampleVerdict) -> str:
    if (recorded.state, recorded.message) != (replayed.state, replayed.message):
        return f"recorded {_state(recorded)}, now {_state(replayed)}"
    said = f"recorded and replayed differ in {', '.join(_changed(recorded, replayed))}"
    new = [finding for finding in replayed.findings if finding not in recorded.findings]
    gone = [finding for finding in recorded.findings if finding not in replayed.findings]
    for what, findings in (("only now", new), ("only recorded", gone)):
        if findings:
            first = findings[0]
            said += f"; {what}: {len(findings)}, first {first.severity} {first.check}/{first.type}: {first.message}"
    return said


def _state(sample: SampleVerdict) -> str:
    return f"{sample.state} ({sample.message})" if sample.message else sample.state.value


def _outcome(cell: CellVerdict) -> str:
    return f"{cell.outcome}{' (failed)' if cell.failed else ''}"


def _changed(
    one: SampleVerdict | CellVerdict | Verdict,
    other: SampleVerdict | CellVerdict | Verdict,
    leave_out: frozenset[str] = frozenset(),
) -> list[str]:
    left, right = one.model_dump(), other.model_dump()
    return [name for name in left if name not in leave_out and left[name] != right[name]]
