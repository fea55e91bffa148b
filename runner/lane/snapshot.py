"""sessions/<index>.json: the evidence of one sample, enough to judge it again without any container.

It holds the server's snapshot exactly as it came and the agent's transcript. A sample that broke off has one as well,
with whatever there was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

import orjson
from pydantic import BaseModel, ConfigDict, JsonValue

from runner.agents.records import SessionView, read
from runner.agents.transcript import TRANSCRIPT_ADAPTER, Transcript
from runner.base.errors import IncompleteError
from runner.base.terms import CellId

SCHEMA_VERSION = 1


class SessionFile(BaseModel):
    """One sample's evidence. `snapshot` is the body of `GET /sessions/{id}`, None when it could not be had."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    schema_version: int = SCHEMA_VERSION
    run: str
    cell: str
    sample_index: int
    transcript: Transcript
    snapshot: JsonValue

    @property
    def view(self) -> SessionView:
        """The snapshot, read as the contract says. Raises VerificationError where it does not follow it."""
        return read(SessionView, orjson.dumps(self.snapshot), "records", f"the snapshot of sample {self.sample_index}")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. Raises IncompleteError when it is missing or not whole."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise IncompleteError(f"{path}: no usable session evidence: {error}") from error

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".json.part")
        body = {
            "schema_version": self.schema_version,
            "run": self.run,
            "cell": self.cell,
            "sample_index": self.sample_index,
            "transcript": TRANSCRIPT_ADAPTER.dump_python(self.transcript, mode="json"),
            "snapshot": self.snapshot,
        }
        unfinished.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2))
        unfinished.replace(path)


def session_path(artifacts: Path, cell: CellId, sample_index: int) -> Path:
    """Where the evidence of a sample lies below the artifacts directory of a run."""
    return artifacts / "cells" / cell.family / cell.lane / cell.scenario / "sessions" / f"{sample_index}.json"
