"""Where a ledger is written: the environment variables, and the places inside a run's artifacts.

The second name is the one that existing rollout code already sets; both lead to the same file, so both are honoured.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runner.base.errors import ConfigurationError
from runner.base.terms import CellId

METRICS_PATH = "SESSION_VERIFY_METRICS_PATH"
MILES_METRICS_PATH = "MILES_SESSION_VERIFY_METRICS_PATH"

LEDGER_NAME = "ledger.jsonl"


def ledger_path(environ: Mapping[str, str]) -> Path | None:
    """The ledger that the environment names, or None where it names none (an empty value counts as unset).

    Raises:
        ConfigurationError: both variables are set and do not agree.
    """
    own, miles = environ.get(METRICS_PATH, ""), environ.get(MILES_METRICS_PATH, "")
    if own and miles and own != miles:
        raise ConfigurationError(
            [f"{METRICS_PATH}={own!r} and {MILES_METRICS_PATH}={miles!r} name two ledgers; set one, or both the same"]
        )
    chosen = own or miles
    return Path(chosen) if chosen else None


LEDGERS = "ledger*.jsonl"
"""Every ledger of a cell or lease, one per writer."""


def cell_ledger(artifacts: Path, cell: CellId, writer: str = "") -> Path:
    """The ledger of one cell below the artifacts directory of a run; a further `writer` gets a file of its own."""
    name = f"ledger-{writer}.jsonl" if writer else LEDGER_NAME
    return artifacts / "cells" / cell.family / cell.lane / cell.scenario / name


def lease_ledger(artifacts: Path, family: str) -> Path:
    """The ledger that the host itself writes for a lease: what broke underneath the cells."""
    return artifacts / "leases" / family / LEDGER_NAME


def lease_cell(family: str) -> str:
    """What stands in the `cell` field of a lease ledger's header."""
    return f"lease:{family}"
