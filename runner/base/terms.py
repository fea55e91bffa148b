"""The vocabulary: lanes, cells, roles, outcomes and exit codes.

These names are also the names in the artifacts and in the documentation (docs/verification.md), so that a person who
greps for a word in a report finds the code that means it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Self


class Role(StrEnum):
    """Who a message is from; also the roles that a family's template may append after a sampled turn."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class WireFormat(StrEnum):
    """The HTTP dialect between agent and session server."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Difference(StrEnum):
    """What two ways of driving the same script may write differently into a prompt, where a family says so."""

    CALL_IDS = "call_ids"
    """The template prints the ids of tool calls, which the engine makes anew for every reply."""
    TOOL_SCHEMA = "tool_schema"
    """The servers of the two wires hand the tool to the template in different forms."""


class ServerVersion(StrEnum):
    """Which state machine of the session server is driven: linear (v1) or tree (v2)."""

    V1 = "v1"
    V2 = "v2"


class Lane(StrEnum):
    """One pass over a family. Anthropic on v1 does not exist: the route needs the tree."""

    V1_OPENAI = "v1-openai"
    V2_OPENAI = "v2-openai"
    V2_ANTHROPIC = "v2-anthropic"

    @property
    def server(self) -> ServerVersion:
        """The session-server version that this lane drives."""
        return ServerVersion(self.value.split("-", 1)[0])

    @property
    def wire(self) -> WireFormat:
        """The wire format that this lane speaks."""
        return WireFormat(self.value.split("-", 1)[1])

    @property
    def service(self) -> str:
        """Name of the Compose service that serves this lane."""
        return f"session-{self.server}"


_PART = re.compile(r"[a-z0-9][a-z0-9_.]*(-[a-z0-9_.]+)*\Z")


@dataclass(frozen=True, order=True)
class CellId:
    """`family/lane/scenario`: the unit that passes or fails."""

    family: str
    lane: Lane
    scenario: str = "baseline"

    def __post_init__(self) -> None:
        for name, part in (("family", self.family), ("scenario", self.scenario)):
            if not _PART.match(part):
                raise ValueError(f"{name} {part!r} is not a name (lower-case letters, digits, '_', '.', single '-')")

    def __str__(self) -> str:
        return f"{self.family}/{self.lane}/{self.scenario}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `family/lane` or `family/lane/scenario`. Raises ValueError that says what was wrong."""
        parts = text.split("/")
        if len(parts) not in (2, 3):
            raise ValueError(f"cell {text!r} is not family/lane or family/lane/scenario")
        try:
            lane = Lane(parts[1])
        except ValueError:
            raise ValueError(f"cell {text!r}: lane {parts[1]!r} is not one of {', '.join(Lane)}") from None
        return cls(parts[0], lane, *parts[2:])


class Outcome(StrEnum):
    """What became of a cell, worst cause first when several apply (see `runner.verdict`)."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    HARD = "hard"
    SOFT = "soft"
    VERIFIER_ERROR = "verifier-error"
    MODEL_INCOMPLETE = "model-incomplete"
    INFRA = "infra"
    INCOMPLETE = "incomplete"
    NOT_APPLICABLE = "not-applicable"


CANNOT_WRITE = 74
"""How the verifier's process ends when its evidence cannot be written, a full disk for one (EX_IOERR of sysexits.h)."""


class ExitCode(IntEnum):
    """Process exit codes of every command."""

    OK = 0
    VERIFICATION_FAILED = 1
    USAGE = 2
    INFRASTRUCTURE = 3
    INCOMPLETE = 4
    INTERRUPTED = 130
