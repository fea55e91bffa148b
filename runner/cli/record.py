"""What the artifacts of a run say about one of its cells: all that is needed to run it again, and nothing else.

Only three files are read: plan.json (what was driven), environment.json (on what), and the lease's compose.env (with
which settings). The families file, the environment of this process and whatever has been built since play no part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.base.errors import ConfigurationError
from runner.base.terms import CellId
from runner.cli.stacks import ENV_NAME, IMAGE_VARIABLES
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.stack.variables import read_env_file
from runner.verdict.artifacts import ENVIRONMENT_NAME, load_plan


class _Reading(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class RecordedImage(_Reading):
    """One image as Docker knew it during the run; `id` is missing where it was not there."""

    reference: str
    id: str = ""
    digests: list[str] = Field(default_factory=list)


class _Checkout(_Reading):
    commit: str = ""


class _Environment(_Reading):
    tito_e2e: _Checkout = _Checkout()
    images: dict[str, RecordedImage]


@dataclass(frozen=True)
class Record:
    """One recorded cell. `variables` are those of compose.yaml, `images` by kind: engine, session, runner."""

    plan: Plan
    lease: PlannedLease
    cell: PlannedCell
    variables: dict[str, str]
    images: dict[str, RecordedImage]
    commit: str

    @classmethod
    def read(cls, run: Path, cell: str) -> Record:
        """Read the record of `cell` in the run's directory.

        Raises:
            ConfigurationError: no such cell, or one of the three files does not say what it must.
        """
        plan, lease, planned = recorded_cell(run, cell)
        environment = _environment(run / ENVIRONMENT_NAME)
        env_file = run / "leases" / lease.family / ENV_NAME
        try:
            variables = read_env_file(env_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError([f"{env_file} cannot be read, so its settings are not known: {error}"]) from error
        problems = [
            f"{run}/environment.json does not say which {kind} image was used"
            for kind in IMAGE_VARIABLES
            if kind not in environment.images or not environment.images[kind].id
        ]
        if problems:
            raise ConfigurationError(problems)
        return cls(plan, lease, planned, variables, environment.images, environment.tito_e2e.commit)

    def variables_again(self, run_id: str, images: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """The recorded Compose variables under a new run id and owner (`own`), with the images named by their ids."""
        named = {IMAGE_VARIABLES[kind]: image for kind, image in images.items()}
        return {**self.variables, "TITO_RUN_ID": run_id, **own, **named}


def recorded_cell(run: Path, cell: str) -> tuple[Plan, PlannedLease, PlannedCell]:
    """The plan of the run in this directory, and in it `cell` with its lease.

    Raises:
        ConfigurationError: there is no plan, no such cell in it, or the cell did not run.
    """
    plan = load_plan(run)
    planned = _planned(plan, cell)
    lease = next((lease for lease in plan.leases if lease.family == planned.family), None)
    if lease is None:
        raise ConfigurationError([f"{run}/plan.json has no lease for the family {planned.family}"])
    return plan, lease, planned


def plan_again(
    plan: Plan, lease: PlannedLease, cell: PlannedCell, *, run_id: str, now: datetime, versions: Mapping[str, str]
) -> Plan:
    """A plan that holds this cell alone, as it was planned: same samples, seeds, limits and time-outs."""
    return plan.model_copy(
        update={
            "run_id": run_id,
            "created_at": now,
            "shard": "1/1",
            "leases": [lease],
            "cells": [cell],
            "versions": {**versions, "repeats": f"{plan.run_id} {cell.id}"},
        }
    )


def _planned(plan: Plan, cell: str) -> PlannedCell:
    try:
        wanted = CellId.parse(cell)
    except ValueError as error:
        raise ConfigurationError([f"CELL={cell!r}: {error}"]) from error
    found = next((planned for planned in plan.cells if planned.id == wanted), None)
    known = ", ".join(str(planned.id) for planned in plan.cells if planned.applicable) or "none that ran"
    if found is None:
        raise ConfigurationError([f"CELL={cell!r} is not in the plan of run {plan.run_id}; it has {known}"])
    if not found.applicable:
        raise ConfigurationError([f"CELL={cell!r} did not run in {plan.run_id}: {found.reason}; what ran: {known}"])
    return found


def _environment(path: Path) -> _Environment:
    try:
        return _Environment.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            [f"{path} cannot be read, so it is not known which images were used ({error.strerror or error})"]
        ) from error
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"])) or "the whole file"
        raise ConfigurationError([f"{path}: {where}: {detail['msg']}"]) from error
