"""The file that holds the Compose variables of a lease. Written by a run, read by Compose, a shell and a repetition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_ENV_LINE = re.compile(r"([A-Z][A-Z0-9_]*)='([^']*)'")


def write_env_file(path: Path, variables: Mapping[str, str]) -> None:
    """Write the variables that compose.yaml reads, one `NAME='value'` per line; a person can reuse the file as well."""
    lines = [f"{name}={_quoted(value)}" for name, value in sorted(variables.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file that `write_env_file` has written. Raises OSError, and ValueError for another file."""
    variables: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = _ENV_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not NAME='value'")
        variables[match[1]] = match[2]
    return variables


def _quoted(value: str) -> str:
    if "\n" in value or "'" in value:
        raise ValueError(f"a compose variable may hold neither a newline nor a single quote: {value!r}")
    return f"'{value}'"
