"""Finds plan, ledgers and verdict in a run's directory, or in each shard of a merged one. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from runner.base.errors import ConfigurationError, IncompleteError
from runner.ledger.paths import LEDGERS, lease_cell
from runner.ledger.reader import Ledger, read_ledger
from runner.ledger.records import SampleRecord, VerificationErrorRecord
from runner.plan.model import SCHEMA_VERSION, Plan, PlannedLease
from runner.verdict.engine import ENGINE_NAME, ENGINE_SERVICE, read_engine
from runner.verdict.gate import decide, with_problems
from runner.verdict.lines import lasting, repeat
from runner.verdict.merge import Part, merge
from runner.verdict.model import SCHEMA_VERSION as VERDICT_SCHEMA
from runner.verdict.model import Verdict

PLAN_NAME = "plan.json"
VERDICT_NAME = "verdict.json"
ENVIRONMENT_NAME = "environment.json"
VARIABLES_NAME = "compose.env"
"""The file of a lease that holds its Compose variables."""

SHARDS = "shards"
"""In a merged run: one directory per shard, each with the artifacts of its run."""


def load_plan(run: Path) -> Plan:
    """The plan of a run.

    Raises:
        ConfigurationError: `run` is not the directory of a run, or its plan is of another version.
    """
    return _plan(run / PLAN_NAME, f"{run} is not the directory of a run: {PLAN_NAME}")


def read_plan(path: Path) -> Plan:
    """The plan in this file. Raises ConfigurationError as `load_plan`."""
    return _plan(path, str(path))


def _plan(path: Path, named: str) -> Plan:
    try:
        plan = Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError([f"{named} cannot be read ({error.strerror or error})"]) from error
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"])) or "the whole file"
        said = detail["msg"].removeprefix("Value error, ")
        raise ConfigurationError([f"{path} is not a plan: {where}: {said}"]) from error
    if plan.schema_version != SCHEMA_VERSION:
        raise ConfigurationError(
            [f"{path} has schema version {plan.schema_version}; this version reads {SCHEMA_VERSION}"]
        )
    return plan


def load_ledgers(run: Path) -> dict[str, list[Ledger]]:
    """Every ledger below the run's directory, by cell or lease; also those that no plan knows. Paths are relative."""
    found: dict[str, list[Ledger]] = {}
    for path in sorted((run / "cells").glob(f"*/*/*/{LEDGERS}")):
        family, lane, scenario = path.relative_to(run / "cells").parts[:3]
        found.setdefault(f"{family}/{lane}/{scenario}", []).append(_relative(path, run))
    for path in sorted((run / "leases").glob(f"*/{LEDGERS}")):
        found.setdefault(lease_cell(path.parent.name), []).append(_relative(path, run))
    return found


def load_recorded(run: Path) -> Verdict | None:
    """The verdict that the run wrote down itself, or None where it wrote none.

    Raises:
        IncompleteError: there is one, and it is not whole or of another version.
    """
    path = run / VERDICT_NAME
    try:
        verdict = Verdict.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise IncompleteError(f"{path} is not a verdict of schema version {VERDICT_SCHEMA}: {first}") from error
    if verdict.schema_version != VERDICT_SCHEMA:
        raise IncompleteError(
            f"{path} has schema version {verdict.schema_version}; this version reads {VERDICT_SCHEMA}"
        )
    return verdict


def load_shards(run: Path) -> list[Path]:
    """The shards of a merged run, empty for a run of its own."""
    return sorted(path.parent for path in (run / SHARDS).glob(f"*/{PLAN_NAME}"))


def load_run(run: Path) -> tuple[Plan, Verdict]:
    """Plan and verdict of the run in this directory; the verdict is decided anew, not read.

    Raises:
        ConfigurationError: there is no plan that can be read, or the shards do not belong together.
    """
    shards = load_shards(run)
    if shards:
        return merged(run, shards, [load_run(shard) for shard in shards])
    plan = load_plan(run)
    return plan, judged(run, plan, load_ledgers(run))


def judged(run: Path, plan: Plan, ledgers: Mapping[str, Sequence[Ledger]]) -> Verdict:
    """The verdict on these ledgers, with what the directory `run` says beside them: engines, and how to run again."""
    verdict = with_problems(decide(plan, ledgers), _silent(plan, ledgers))
    return located(run, plan, _with_engines(run, plan, verdict, ledgers))


def _silent(plan: Plan, ledgers: Mapping[str, Sequence[Ledger]]) -> list[str]:
    """Leases whose own ledger is not there: what broke underneath them would stand in it, so its absence is no news."""
    return [
        f"leases/{lease.family}/ledger.jsonl is missing: whether the ground of {lease.family} held cannot be told"
        for lease in plan.leases
        if not ledgers.get(lease_cell(lease.family))
    ]


def _with_engines(run: Path, plan: Plan, verdict: Verdict, ledgers: Mapping[str, Sequence[Ledger]]) -> Verdict:
    engines, problems = [], []
    for lease in plan.leases:
        try:
            facts = read_engine(run, lease.family)
        except IncompleteError as error:
            problems.append(str(error))
            continue
        if facts is not None:
            engines.append(facts)
        elif _was_asked(plan, lease, ledgers):
            problems.append(
                f"leases/{lease.family}/{ENGINE_NAME} is missing: samples of {lease.family} were driven, and before"
                " that its engine was asked what it can"
            )
    return with_problems(verdict.model_copy(update={"engines": engines}), problems)


def _was_asked(plan: Plan, lease: PlannedLease, ledgers: Mapping[str, Sequence[Ledger]]) -> bool:
    """Whether the engine of a lease told what it can: no lane begins before, where the engine's own address is known.

    Of servers that already run it need not be; and a lease may have ended before.
    """
    if lease.urls and ENGINE_SERVICE not in lease.urls:
        return False
    return any(
        isinstance(record, SampleRecord | VerificationErrorRecord) and record.sample_index is not None
        for cell in plan.cells_of(lease.family)
        for ledger in ledgers.get(str(cell.id), [])
        for record in ledger.records
    )


def located(run: Path, plan: Plan, verdict: Verdict) -> Verdict:
    """The verdict with the lines that run its cells again from the record in `run`, where that holds enough for it.

    A run that broke before its lease had images and variables has no such record: those lines stay what they are.
    """
    place = run.resolve()
    named = str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)
    whole = {lease.family for lease in plan.leases if _repeatable(run, lease)}
    planned = {str(cell.id): cell for cell in plan.cells if cell.applicable and cell.family in whole}
    cells = [
        cell.model_copy(update={"reproduce": repeat(named, planned[cell.cell])}) if cell.cell in planned else cell
        for cell in verdict.cells
    ]
    return verdict.model_copy(update={"cells": cells})


def _repeatable(run: Path, lease: PlannedLease) -> bool:
    if lease.urls:
        return bool(lasting(lease))
    return (run / ENVIRONMENT_NAME).is_file() and (run / "leases" / lease.family / VARIABLES_NAME).is_file()


def merged(run: Path, shards: Sequence[Path], parts: Sequence[tuple[Plan, Verdict]]) -> tuple[Plan, Verdict]:
    """Plan and verdict of a merged run, from those of its shards in the same order."""
    return merge(
        [Part(str(shard.relative_to(run)), plan, verdict) for shard, (plan, verdict) in zip(shards, parts, strict=True)]
    )


def _relative(path: Path, run: Path) -> Ledger:
    ledger = read_ledger(path)
    return Ledger(str(path.relative_to(run)), ledger.header, ledger.records, ledger.trailer, ledger.problems)
