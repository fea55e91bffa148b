"""Two versions of SGLang side by side: what every check said of each, in one table, and what speaks against one.

A check that the old version passed and the new one does not is a problem, and so is a conversion that changed: nothing
may change in the tokens of a session without somebody having read what. What was already so with the old one is shown
and is no problem of the upgrade.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from runner.base.terms import ExitCode, Outcome
from runner.contract.conversion.recording import Change, shown
from runner.contract.result import ContractResult
from runner.verdict.model import Verdict

NOT_RUN = "not run"

_INDEX = re.compile(r"\[\d+\]")
"""The place in a list does not make two changes different."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(_Model):
    """One line of the table."""

    check: str
    old: str
    new: str

    @property
    def same(self) -> bool:
        """Whether both say the same."""
        return self.old == self.new


class Side(_Model):
    """One of the two versions."""

    version: str
    image: str


class Upgrade(_Model):
    """upgrade.json. `changed` is every single thing that differs, `problems` what speaks against the new version."""

    schema_version: int = 1
    run: str
    old: Side
    new: Side
    rows: tuple[Row, ...]
    changed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Checks that could not be made, with the reason: neither for nor against the version."""
    declared: tuple[str, ...] = ()
    """Requirements that the two versions declare differently, most of which a CPU engine does not install."""
    files: dict[str, str] = Field(default_factory=dict)
    """What was kept of each check, relative to this file."""

    @property
    def exit_code(self) -> ExitCode:
        """1 where something speaks against the new version, 3 where a check of it could not be made."""
        if self.problems:
            return ExitCode.VERIFICATION_FAILED
        return ExitCode.INFRASTRUCTURE if self.broken else ExitCode.OK


class Findings:
    """Collects rows, changes and problems, in the order in which the checks are made."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.changed: list[str] = []
        self.problems: list[str] = []
        self.broken: list[str] = []
        self.declared: list[str] = []

    def row(self, check: str, old: object, new: object) -> None:
        """One line of the table."""
        self.rows.append(Row(check=check, old=str(old), new=str(new)))

    def not_made(self, check: str, why: str) -> None:
        """A check that something underneath kept from being made."""
        self.row(check, NOT_RUN, NOT_RUN)
        self.broken.append(f"{check}: {why}")

    def packages(self, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Locked packages, name -> version. A difference is no problem of its own."""
        differ = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name) and name != "sglang"]
        self.row(
            "packages",
            f"{len(old)} locked",
            f"{len(new)} locked, {len(differ)} differ" if differ else f"{len(new)} locked",
        )
        self.changed += [f"package {name}: {old.get(name, 'none')} -> {new.get(name, 'none')}" for name in differ]

    def requirements(self, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Declared requirements, name -> constraint, of which the image installs those that it needs."""
        differ = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        self.row("declared requirements", len(old), f"{len(new)}, {len(differ)} differ" if differ else len(new))
        for name in differ:
            one, two = (of.get(name, "not declared") or "any version" for of in (old, new))
            self.declared.append(f"{name}: {one} -> {two}")

    def stubs(self, old: str, new: str, problem: str = "") -> None:
        """What the check of the stubs said; `problem` where they are not enough for the new version."""
        self.row("stub check", old, new)
        if problem:
            self.problems.append(f"stub check: {problem}")

    def kit(self, old: ContractResult, new: ContractResult) -> None:
        """SGLang's own Anthropic tests: what passed must be there and pass, and so must what is new."""
        self.row("Anthropic kit, live", _counted(old), _counted(new))
        before, after = ({test.name: test.outcome for test in result.tests} for result in (old, new))
        if not before:
            self.broken += [f"kit with SGLang {old.pin.expected}: {problem}" for problem in old.problems]
        for name in dict.fromkeys([*before, *after]):
            one, two = before.get(name, "not there"), after.get(name, "not there")
            if one != two:
                self.changed.append(f"kit {name}: {one} -> {two}")
            if two != "passed" and one in ("passed", "not there"):
                self.problems.append(f"kit {name}: {one} -> {two}")
        if not after:
            self.problems += [f"kit: {problem}" for problem in new.problems]

    def conversion(self, cases: int, changes: Sequence[Change]) -> None:
        """SGLang's conversion of the corpus."""
        names = list(dict.fromkeys((change.kind, change.case) for change in changes))
        self.row(
            "SGLang's conversion",
            f"{cases} cases",
            f"{cases} cases, {len(names)} changed" if names else f"{cases} cases",
        )
        alike: dict[str, dict[str, None]] = {}
        for change in changes:
            what = f"{_INDEX.sub('[*]', change.path)}: {shown(change.old, change.new)}"
            alike.setdefault(what, {})[f"{change.kind} {change.case}"] = None
        self.changed += [f"conversion {what}, in {_cases(cases)}" for what, cases in alike.items()]
        if names:
            self.problems.append(f"{len(names)} of the conversion's cases changed")

    def ours(self, old: ContractResult, new: ContractResult) -> None:
        """Our conversion against SGLang's: differences that are not listed."""
        self.row("ours against it", *(_unlisted(result) for result in (old, new)))
        before, after = ({test.name for test in result.tests if test.outcome == "failed"} for result in (old, new))
        if worse := [test.name for test in new.tests if test.name in after - before]:
            self.problems.append(f"ours against it: not as listed any more: {_cases(worse)}")
        told = "\n".join(test.text for test in new.tests).splitlines()
        loose = [one for one in new.problems if one not in old.problems and one not in told]
        self.problems += [f"ours against it: {one}" for one in loose]

    def cells(self, old: Verdict, new: Verdict) -> None:
        """The cells of a run: each that passed must pass. Turns and tokens are sampled and differ from run to run."""
        before, after = ({cell.cell: cell for cell in verdict.cells} for verdict in (old, new))
        for name in dict.fromkeys([*before, *after]):
            one, two = before.get(name), after.get(name)
            told = [
                "not planned"
                if cell is None
                else f"{cell.outcome}, {cell.completed_samples}/{cell.planned_samples} samples, {cell.turns} turns"
                for cell in (one, two)
            ]
            self.row(name, *told)
            outcomes = ["not planned" if cell is None else cell.outcome.value for cell in (one, two)]
            if outcomes[0] != outcomes[1]:
                self.changed.append(f"cell {name}: {outcomes[0]} -> {outcomes[1]}")
            if two is None or (two.outcome is not Outcome.PASS and two.outcome is not Outcome.NOT_APPLICABLE):
                why = f": {two.reasons[0].message}" if two is not None and two.reasons else ""
                self.problems.append(f"cell {name}: {outcomes[0]} -> {outcomes[1]}{why}")

    def result(self, run: str, old: Side, new: Side, files: Mapping[str, str]) -> Upgrade:
        """Everything, as one."""
        return Upgrade(
            run=run,
            old=old,
            new=new,
            rows=tuple(self.rows),
            changed=tuple(self.changed),
            problems=tuple(self.problems),
            broken=tuple(self.broken),
            declared=tuple(self.declared),
            files=dict(files),
        )


def _counted(result: ContractResult) -> str:
    if not result.tests:
        return f"{result.outcome.value}, no test ran"
    return f"{result.counts.passed} of {result.counts.collected} passed"


def _cases(names: Collection[str]) -> str:
    return f"{len(names)} case{'s' if len(names) > 1 else ''}: {', '.join(names)}"


def _unlisted(result: ContractResult) -> str:
    failed = result.counts.failed
    return "as listed" if not failed else f"{failed} cases not as listed"


def table(upgrade: Upgrade) -> list[str]:
    """The table as Markdown that reads well as plain text."""
    head = ("check", f"old: {upgrade.old.version}", f"new: {upgrade.new.version}", "")
    body = [(row.check, row.old, row.new, "" if row.same else "differs") for row in upgrade.rows]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    lines = [
        "| " + " | ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)) + " |"
        for line in [head, *body]
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def markdown(upgrade: Upgrade) -> str:
    """upgrade.md: the table, every change, every problem."""
    lines = [f"# SGLang {upgrade.old.version} -> {upgrade.new.version}", "", *table(upgrade)]
    sections = {
        "What speaks against it": upgrade.problems,
        "What could not be checked": upgrade.broken,
        "What changed": upgrade.changed,
        "Declared requirements that differ": upgrade.declared,
    }
    for title, found in sections.items():
        lines += (
            ["", f"## {title}", "", *(f"- {one}" for one in found)] if found else ["", f"## {title}", "", "Nothing."]
        )
    return "\n".join(lines) + "\n"


def write_upgrade(upgrade: Upgrade, directory: Path) -> None:
    """Write upgrade.json and upgrade.md into `directory`, which exists."""
    (directory / "upgrade.json").write_text(upgrade.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (directory / "upgrade.md").write_text(markdown(upgrade), encoding="utf-8")
