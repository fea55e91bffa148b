"""What was found out about the engine of a lease before its lanes began: facts for people, kept beside the verdict.

The runner asks and writes `leases/<family>/engine.json`; the host reads it for environment.json and the reports. No
rule of the gate looks at what it says; that it is there, where samples were driven, is evidence like any other. A claim
about reproducibility is one of these facts or it is not made.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from runner.base.errors import IncompleteError

ENGINE_NAME = "engine.json"
ENGINE_SERVICE = "engine"
"""Its name among the services of a lease, and among the URLs of servers that already run."""
SCHEMA_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Seen(StrEnum):
    """The answer to a question about reproducibility. `NOT_KNOWN`: what was seen does not decide it."""

    YES = "yes"
    NO = "no"
    NOT_KNOWN = "not known"


class Capability(_Model):
    """One thing that an engine can do or not. `needed`: the lanes cannot be driven or judged without it."""

    name: str
    needed: bool
    available: bool
    seen: str
    """What the engine answered, in a few words."""


class Determinism(_Model):
    """What repeating requests one at a time showed. A sampled text has `tokens` tokens."""

    same_seed: Seen
    """The same request with the same seed gives the same tokens, at `temperature`."""
    greedy: Seen
    """The same request at temperature 0 gives the same tokens."""
    temperature: float
    tokens: int
    other_seed_differs: bool
    """Another seed gave other tokens: without that, equal tokens show nothing about the seed."""
    chance: Annotated[float, Field(ge=0)]
    """How probable the first text was to be drawn once more without any seed, by its own log-probs."""

    @property
    def answers(self) -> list[tuple[str, Seen]]:
        """The questions with their answers, for people."""
        return [("same seed, same text", self.same_seed), ("temperature 0, same text", self.greedy)]


class EngineFacts(_Model):
    """One engine. `determinism` is None where a needed capability is missing: it was not tried then."""

    schema_version: int = SCHEMA_VERSION
    family: str
    version: str | None
    model: str | None
    asked_at: AwareDatetime
    seconds: Annotated[float, Field(ge=0)]
    capabilities: list[Capability]
    determinism: Determinism | None

    @property
    def named(self) -> str:
        """Version and model, for a sentence."""
        return f"version {self.version or 'not told'}, model {self.model or 'not told'}"

    @property
    def described(self) -> str:
        """Everything in one line: what it is, what it lacks, whether it repeats itself."""
        found = [self.named]
        for capability in (*self.lacking, *self.optional):
            found.append(f"{'lacks' if capability.needed else 'without'} {capability.name}")
        if self.determinism is not None:
            found += [f"{question}: {answer}" for question, answer in self.determinism.answers]
        return "; ".join(found)

    @property
    def lacking(self) -> list[Capability]:
        """Needed capabilities that are not there."""
        return [capability for capability in self.capabilities if capability.needed and not capability.available]

    @property
    def optional(self) -> list[Capability]:
        """What is not there and not needed."""
        return [capability for capability in self.capabilities if not capability.needed and not capability.available]


def engine_path(run: Path, family: str) -> Path:
    """Where the facts about the engine of a lease lie below the artifacts directory of a run."""
    return run / "leases" / family / ENGINE_NAME


def write_engine(run: Path, facts: EngineFacts) -> Path:
    """Write the facts, whole or not at all; their place is returned."""
    path = engine_path(run, facts.family)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(facts.model_dump_json(indent=2) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def read_engine(run: Path, family: str) -> EngineFacts | None:
    """The facts about the engine of a lease; None where it was not asked.

    Raises IncompleteError when they are there and cannot be read.
    """
    path = engine_path(run, family)
    try:
        return EngineFacts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise IncompleteError(f"leases/{family}/{ENGINE_NAME} is not what the runner writes: {first}") from error
