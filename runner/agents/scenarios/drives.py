"""Which script drives a scenario on which wire.

`runner.plan.scenarios` lists the scenarios; a test holds the two lists together, so that nothing is planned that
nobody can drive.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runner.agents.scenarios import (
    arguments,
    baseline,
    budget,
    caching,
    concurrent,
    differential,
    identical,
    interrupted,
    lists,
    lost,
    parallel,
    volatile,
)
from runner.agents.scenarios.scene import Drive
from runner.base.errors import ConfigurationError
from runner.base.terms import WireFormat

_OPENAI, _ANTHROPIC = WireFormat.OPENAI, WireFormat.ANTHROPIC


def _both(name: str, drive: Drive) -> dict[tuple[str, WireFormat], Drive]:
    return {(name, wire): drive for wire in WireFormat}


DRIVES: Mapping[tuple[str, WireFormat], Drive] = MappingProxyType(
    {
        ("baseline", _OPENAI): baseline.openai,
        ("baseline", _ANTHROPIC): baseline.anthropic,
        **_both("parallel-tools", parallel.drive),
        **_both("arguments", arguments.drive),
        **_both("list-content", lists.drive),
        **_both("volatile-system", volatile.drive),
        ("cache-control", _ANTHROPIC): caching.drive,
        **_both("max-tokens", budget.drive),
        **_both("concurrent", concurrent.drive),
        **_both("reply-lost", lost.drive),
        **_both("identical", identical.drive),
        **_both("interrupted-stream", interrupted.drive),
        **_both("differential", differential.drive),
    }
)
"""By scenario and wire."""


def drive_of(scenario: str, wire: WireFormat) -> Drive:
    """The script. Raises ConfigurationError where this version has none: a plan of another version."""
    drive = DRIVES.get((scenario, wire))
    if drive is None:
        known = ", ".join(sorted({name for name, on in DRIVES if on is wire}))
        raise ConfigurationError(
            [f"this version has no script for the scenario {scenario!r} on the {wire} wire; it has {known}"]
        )
    return drive
