"""Words and numbers that all reports share, so that the console, the summary and the page say the same thing."""

from __future__ import annotations

import re
import unicodedata

from runner.base.terms import Outcome
from runner.ledger.records import Finding, Severity, TokenDiff
from runner.verdict.model import CellVerdict, LeaseTiming, Rule, Verdict

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")

EXPECTED = {
    Rule.NOT_APPLICABLE: "a cell that can run",
    Rule.EVIDENCE: "one terminal record for every planned sample, and an intact ledger that its writer closed",
    Rule.INFRASTRUCTURE: "engine, session servers and runner that stay up until the cell is done",
    Rule.VERIFICATION_ERROR: "every check and every step of the driver to hold",
    Rule.SAMPLES: "at least one sample driven to its end",
    Rule.HARD: "the stored tokens to be exactly those that were sampled and rendered",
    Rule.COVERAGE: "every required driver event",
    Rule.SOFT: "assistant text that differs in no more samples than the lane tolerates",
    Rule.CONTENT: "assistant content that does not differ",
    Rule.RETRIES: "no more retries than the cell's limit",
}
"""What each rule of the gate asks for."""

BAD = frozenset(Outcome) - {Outcome.PASS, Outcome.NOT_APPLICABLE}


def bad_cells(verdict: Verdict) -> list[CellVerdict]:
    """The cells that keep the run from passing, failed ones first."""
    return sorted((cell for cell in verdict.cells if cell.outcome in BAD), key=lambda cell: not cell.failed)


def plain(text: str) -> str:
    """Text from a log or a model without colour codes and control characters: it must not steer a terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs" else "\ufffd"
        for c in _ANSI.sub("", text).replace("\r\n", "\n")
    )


def duration(seconds: float) -> str:
    """`4.2 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def outcome_word(cell: CellVerdict) -> str:
    """The outcome, and what must not be overlooked beside it."""
    if cell.passed_on_retry:
        return "pass (on retry)"
    if cell.passed_again:
        return f"{cell.outcome} (passed on retry)"
    if cell.failed and cell.outcome in (Outcome.INFRA, Outcome.INCOMPLETE):
        return f"{cell.outcome} (and a check failed)"
    return cell.outcome.value


def retries_word(retries: dict[str, int]) -> str:
    """`3 (length 2, empty 1)`, or `0`."""
    total = sum(retries.values())
    causes = ", ".join(f"{cause} {number}" for cause, number in sorted(retries.items()))
    return f"{total} ({causes})" if total else "0"


def headline(verdict: Verdict) -> str:
    """One line: how the run ended."""
    counts = ", ".join(f"{number} {outcome}" for outcome, number in verdict.counts().items()) or "no cells"
    retried = sum(cell.passed_on_retry for cell in verdict.cells)
    more = f" ({retried} on retry)" if retried else ""
    ended = ", interrupted" if verdict.interrupted else ""
    return f"{'PASS' if verdict.passed else 'FAIL'}: {counts}{more}; exit code {int(verdict.exit_code)}{ended}"


NOT_AS_RECORDED = "not as recorded"


def run_problems(verdict: Verdict) -> list[tuple[str, str]]:
    """What keeps the run as a whole from passing: what kind of problem, in a word or two, and the problem."""
    return [
        *(("incomplete", problem) for problem in verdict.problems),
        *((NOT_AS_RECORDED, difference) for difference in verdict.differences),
    ]


def first_finding(cell: CellVerdict) -> tuple[int, Finding] | None:
    """The finding to show first, with its sample index: hard before soft, one with a token diff before one without."""
    findings = [
        (sample.index, finding)
        for sample in cell.samples
        for finding in sample.findings
        if finding.severity is not Severity.NOTE
    ]
    return min(
        findings,
        key=lambda item: (item[1].severity is not Severity.HARD, item[1].diff is None),
        default=None,
    )


def visible(text: str) -> str:
    """The text in quotes, with white space and control characters spelt out: one lost newline is what we look for."""
    return f'"{spelled(text)}"'


def spelled(text: str) -> str:
    """As `visible`, without the quotes."""
    escaped = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r").replace('"', '\\"')
    )
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped)


def parted(text: str, other: str) -> tuple[str, str, str]:
    """A text as what it begins with in common with the other, what differs, and what it ends with in common."""
    shorter = min(len(text), len(other))
    start = next((index for index in range(shorter) if text[index] != other[index]), shorter)
    rest = shorter - start
    end = next((index for index in range(rest) if text[-1 - index] != other[-1 - index]), rest)
    return text[:start], text[start : len(text) - end], text[len(text) - end :]


def remarks(cell: CellVerdict) -> list[str]:
    """What must be seen beside the outcome, also of a cell that passed: faults put in, retries, notes."""
    return [
        *(f"fault put in: {fault}" for fault in cell.faults),
        *(f"retried: {attempt}" for attempt in cell.retried),
        *(f"note: {note}" for note in cell.notes),
    ]


def times(lease: LeaseTiming) -> list[tuple[str, str]]:
    """The times of a lease in words, name and duration; what was not recorded is left out."""
    known = [
        ("boot", lease.boot_seconds),
        ("verify", lease.verify_seconds),
        ("collect", lease.collect_seconds),
        ("remove", lease.remove_seconds),
        *((lane.lane.value, lane.wall.seconds) for lane in lease.lanes),
    ]
    shown = [(name, duration(seconds)) for name, seconds in known if seconds is not None]
    if lease.together and len(lease.lanes) > 1:
        longest = max(lease.lanes, key=lambda lane: lane.wall.seconds)
        ratio = lease.together.seconds / longest.wall.seconds if longest.wall.seconds else 1.0
        together = f"{duration(lease.together.seconds)} ({ratio:.2f} x the longest, {longest.lane})"
        shown.append((f"all {len(lease.lanes)} lanes", together))
    return shown


def engine_lines(verdict: Verdict) -> list[tuple[str, str]]:
    """Family and what was found out about its engine, one line each; what was not asked is said not to be known."""
    known = {facts.family: facts.described for facts in verdict.engines}
    unknown = "not asked what it can; whether it repeats itself is not known"
    return [(lease.family, known.get(lease.family, unknown)) for lease in verdict.leases]


def marked(ids: list[int], other: list[int]) -> list[tuple[int, bool]]:
    """The ids of a window; True marks the first that differs from the other window."""
    place = next(
        (index for index, (one, two) in enumerate(zip(ids, other, strict=False)) if one != two),
        min(len(ids), len(other)),
    )
    return [(token, index == place) for index, token in enumerate(ids)]


def diff_lines(diff: TokenDiff) -> list[str]:
    """A token diff as plain lines; the first differing id stands in brackets."""

    def shown(ids: list[int], other: list[int]) -> str:
        return " ".join(f"[{token}]" if first else str(token) for token, first in marked(ids, other)) or "(ends here)"

    def one(token: int | None) -> str:
        return "the end" if token is None else f"id {token}"

    return [
        f"first difference at token {diff.token_index}: expected {one(diff.expected_id)}, seen {one(diff.actual_id)}",
        f"expected ids   {shown(diff.expected_ids, diff.actual_ids)}",
        f"seen ids       {shown(diff.actual_ids, diff.expected_ids)}",
        f"expected text  {visible(diff.expected_text)}",
        f"seen text      {visible(diff.actual_text)}",
    ]


def finding_title(index: int, finding: Finding) -> str:
    """`sample 0, turn 3 (tool): prefix/prefix: message`."""
    turn = "" if finding.turn is None else f", turn {finding.turn}"
    role = f" ({finding.role})" if finding.role else ""
    return f"sample {index}{turn}{role}: {finding.check}/{finding.type}: {finding.message}"
