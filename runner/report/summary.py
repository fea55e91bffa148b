"""summary.md: the run on one page of Markdown, small enough for any CI's summary, and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.terms import Outcome
from runner.report.text import (
    bad_cells,
    diff_lines,
    duration,
    engine_lines,
    finding_title,
    first_finding,
    headline,
    outcome_word,
    plain,
    remarks,
    retries_word,
    run_problems,
    times,
)
from runner.verdict.model import CellVerdict, Verdict

LIMIT_BYTES = 64 * 1024 - 1
"""summary.md stays under 64 KiB."""
MOST_ANNOTATIONS = 10
"""GitHub shows at most ten errors of a step."""

_MARKS = {Outcome.PASS: "✅", Outcome.NOT_APPLICABLE: "➖", Outcome.INFRA: "🔌", Outcome.INCOMPLETE: "❓"}
_MOST_CHARS = 2000
_MOST_REMARKS = 10
"""Retries, notes and faults of one cell that are shown here."""
_CUT = "\n_The rest is left out here; report.html in the artifacts has everything._\n"


def summary(verdict: Verdict, limit: int = LIMIT_BYTES) -> str:
    """The Markdown, at most `limit` bytes: whole sections are left out at the end, and it says so."""
    text = ""
    for part in _parts(verdict):
        if len((text + part + _CUT).encode()) > limit:
            return text + _CUT
        text += part
    return text


def github_annotations(verdict: Verdict) -> list[str]:
    """GitHub workflow commands, at most ten: errors, then passes that needed retries; the last for those left over."""
    lines = [_annotation("error", f"run: {kind}", problem) for kind, problem in run_problems(verdict)]
    for cell in bad_cells(verdict):
        message = cell.reasons[0].message if cell.reasons else ""
        lines.append(_annotation("error", f"{cell.cell}: {outcome_word(cell)}", f"{message}\n{cell.reproduce}"))
    for cell in verdict.cells:
        if cell.passed_on_retry:
            said = "\n".join([f"retries {retries_word(cell.retries)}", *cell.retried])
            lines.append(_annotation("warning", f"{cell.cell}: {outcome_word(cell)}", said))
    if len(lines) > MOST_ANNOTATIONS:
        rest = len(lines) - MOST_ANNOTATIONS + 1
        level = "error" if lines[MOST_ANNOTATIONS - 1].startswith("::error") else "warning"
        lines = [
            *lines[: MOST_ANNOTATIONS - 1],
            _annotation(level, "more", f"{rest} more; see report.html in the artifacts"),
        ]
    return lines


def _annotation(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(title)}::{_data(plain(message)[:_MOST_CHARS].rstrip())}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _parts(verdict: Verdict) -> Iterator[str]:
    yield f"## {headline(verdict)}\n\nRun `{verdict.run_id}`\n\n"
    for kind, problem in run_problems(verdict):
        yield f"- **{kind}**: {_cell(problem)}\n"
    yield (
        "| cell | outcome | samples | turns | prompt tokens | sampled tokens | wall | seconds | retries |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    for cell in verdict.cells:
        yield _row(cell)
    for cell in bad_cells(verdict):
        yield _section(cell)
    remarked = [cell for cell in verdict.cells if remarks(cell)]
    if remarked:
        yield "\n### Retries and notes\n\n"
    for cell in remarked:
        yield _remarks(cell)
    engines = engine_lines(verdict)
    if engines:
        yield "\n### Engine\n\n"
    for family, said in engines:
        yield f"- `{family}`: {_cell(said)}\n"
    timed = [lease for lease in verdict.leases if times(lease)]
    if timed:
        yield "\n### Where the time went\n\n"
    for lease in timed:
        yield f"- `{lease.family}`: {_cell(', '.join(f'{name} {figure}' for name, figure in times(lease)))}\n"
    left_out = [cell for cell in verdict.cells if cell.outcome is Outcome.NOT_APPLICABLE]
    if left_out:
        yield "\n### Not applicable\n\n"
    for cell in left_out:
        yield f"- `{cell.cell}`: {_cell(cell.reasons[0].message)}\n"


def _remarks(cell: CellVerdict) -> str:
    said = remarks(cell)
    lines = [f"- `{cell.cell}`: {outcome_word(cell)}", *(f"  - {_cell(remark)}" for remark in said[:_MOST_REMARKS])]
    if len(said) > _MOST_REMARKS:
        lines.append(f"  - and {len(said) - _MOST_REMARKS} more: see report.html")
    return "\n".join(lines) + "\n"


def _row(cell: CellVerdict) -> str:
    mark = _MARKS.get(cell.outcome, "❌")
    if cell.outcome is Outcome.NOT_APPLICABLE:
        return f"| `{cell.cell}` | {mark} {cell.outcome} | | | | | | | |\n"
    return (
        f"| `{cell.cell}` | {mark} {outcome_word(cell)} | {cell.completed_samples}/{cell.planned_samples} |"
        f" {cell.turns} | {cell.prompt_tokens} | {cell.completion_tokens} |"
        f" {duration(cell.wall.seconds) if cell.wall else ''} | {duration(cell.seconds)} |"
        f" {_cell(retries_word(cell.retries))} |\n"
    )


def _section(cell: CellVerdict) -> str:
    lines = [f"\n### `{cell.cell}`: {outcome_word(cell)}\n"]
    lines += [f"- **{reason.rule}**: {_cell(reason.message)}" for reason in cell.reasons]
    found = first_finding(cell)
    if found:
        lines += ["", *_fenced([finding_title(*found), *(diff_lines(found[1].diff) if found[1].diff else [])])]
    if cell.log_tail:
        lines += ["", *_fenced(cell.log_tail[-20:])]
    lines += ["", f"Artifacts: `{cell.artifacts}`"]
    if cell.reproduce:
        lines += ["", *_fenced([cell.reproduce])]
    return "\n".join(lines) + "\n"


def _fenced(lines: list[str]) -> list[str]:
    body = plain("\n".join(lines))
    fence = "```"
    while fence in body:
        fence += "`"
    return [fence, body, fence]


def _cell(text: str) -> str:
    """Text inside a table cell or list item: one line, nothing of it read as Markdown or HTML."""
    flat = " ".join(plain(text).split())[:_MOST_CHARS]
    for character in "\\`*_{}[]<>|~#":
        flat = flat.replace(
            character, f"\\{character}" if character not in "<>" else f"&{'lt' if character == '<' else 'gt'};"
        )
    return flat
