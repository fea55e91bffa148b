"""Finds plan and ledgers in a run's directory. The only part of the verdict that touches files."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from runner.base.errors import ConfigurationError
from runner.ledger.paths import LEDGERS, lease_cell
from runner.ledger.reader import Ledger, read_ledger
from runner.plan.model import SCHEMA_VERSION, Plan
from runner.verdict.gate import decide
from runner.verdict.model import Verdict

PLAN_NAME = "plan.json"
VERDICT_NAME = "verdict.json"


def load_plan(run: Path) -> Plan:
    """The plan of a run.

    Raises:
        ConfigurationError: `run` is not the directory of a run, or its plan is of another version.
    """
    path = run / PLAN_NAME
    try:
        plan = Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            [f"{run} is not the directory of a run: {PLAN_NAME} cannot be read ({error.strerror or error})"]
        ) from error
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"])) or "the whole file"
        raise ConfigurationError([f"{path} is not a plan: {where}: {detail['msg']}"]) from error
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


def load_run(run: Path) -> tuple[Plan, Verdict]:
    """Plan and verdict of the run in this directory; the verdict is decided anew, not read.

    Raises:
        ConfigurationError: there is no plan that can be read.
    """
    plan = load_plan(run)
    return plan, decide(plan, load_ledgers(run))


def _relative(path: Path, run: Path) -> Ledger:
    ledger = read_ledger(path)
    return Ledger(str(path.relative_to(run)), ledger.header, ledger.records, ledger.trailer, ledger.problems)
