"""The installed server against the one constructor, and the constructor's fields against what a server reads."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from runner.base.errors import ConfigurationError
from runner.contract import arguments
from runner.contract.compare import compare, read_constructor
from runner.contract.flow import scan
from runner.contract.source import read_source

PACKAGE = "miles.rollout.session"


def source() -> Path:
    """Where the installed server's source is. Raises ConfigurationError where it is not installed."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError([f"{PACKAGE} is not installed"])
    return Path(next(iter(found.submodule_search_locations)))


def check(directory: Path) -> list[str]:
    """Names of the fields that this server reads. Raises ConfigurationError with every field that does not fit."""
    constructor = read_constructor(Path(arguments.__file__), "SessionServerArgs")
    outcome = compare(scan(read_source(directory)), constructor)
    if outcome.problems:
        raise ConfigurationError(list(outcome.problems))
    return [one.name for one in outcome.fields]
