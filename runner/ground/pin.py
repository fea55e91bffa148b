"""The version of SGLang that the CPU engine is pinned to, read from the one place that says it."""

from __future__ import annotations

import re
from pathlib import Path

from runner.base.errors import InfrastructureError

PIN = Path("images/engine-cpu/requirements-alone.in")
"""Relative to the repository."""


def pinned_sglang(root: Path) -> str:
    """The version, e.g. `0.5.23`. Raises InfrastructureError where the file is not there or pins none."""
    path = root / PIN
    try:
        found = re.search(r"^sglang==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError as error:
        raise InfrastructureError(f"the pinned SGLang version cannot be read: {error}") from error
    if found is None:
        raise InfrastructureError(f"{path} pins no sglang version")
    return found[1]
