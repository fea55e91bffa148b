"""What one side made of the corpus, as a file, and what is different between two of them.

A recording is made by one container without a network and can be kept: an upgrade of SGLang is judged by two recordings
of it, long after the older image is gone.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.contract.conversion import replies, requests
from runner.contract.conversion.differences import ABSENT, compare
from runner.ground.shell import Run, run
from runner.ground.site import LABEL

_SECONDS = 900.0
"""Importing SGLang takes about ten seconds on a quiet machine; this only ends a hang."""

_REMOVE_SECONDS = 60.0
_SHOWN = 160
"""Characters of a value that are shown."""


class Side(StrEnum):
    """Whose conversion it is."""

    OURS = "session-server"
    THEIRS = "sglang"


_HERE = Path(__file__).parent
_SCRIPTS = {Side.OURS: _HERE / "ours.py", Side.THEIRS: _HERE / "theirs.py"}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Outcome(_Model):
    """What became of one case: one of the two is there."""

    made: Any = None
    refused: str | None = None

    def plain(self) -> dict[str, Any]:
        """As `differences` takes it."""
        return {"made": self.made} if self.refused is None else {"refused": self.refused}


class Recording(_Model):
    """One side's outcome for every case of the corpus, by its name."""

    schema_version: int = 1
    side: Side
    image: str
    version: str
    """Of SGLang, or of the session server."""
    requests: dict[str, Outcome]
    replies: dict[str, Outcome]

    def cases(self) -> dict[tuple[str, str], Outcome]:
        """(`request` or `reply`, name) -> outcome, in the order of the corpus."""
        return {
            **{("request", name): outcome for name, outcome in self.requests.items()},
            **{("reply", name): outcome for name, outcome in self.replies.items()},
        }


@dataclass(frozen=True)
class Change:
    """One place in which a case came out differently. `path` as in `Difference`, or `the case` where one lacks it."""

    kind: str
    case: str
    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.kind} {self.case}: {self.path}: {shown(self.old, self.new)}"


def shown(old: Any, new: Any) -> str:
    """`old -> new` in one line; of long values only what is around their first difference."""
    texts = [value if value == ABSENT else json.dumps(value, ensure_ascii=False) for value in (old, new)]
    if max(map(len, texts)) > _SHOWN:
        alike = next((at for at, (one, two) in enumerate(zip(*texts, strict=False)) if one != two), 0)
        start = max(0, alike - _SHOWN // 4)
        texts = [f"{'…' * bool(start)}{text[start : start + _SHOWN]}" for text in texts]
    return " -> ".join(texts)


def record(side: Side, image: str, run_id: str, *, env: Mapping[str, str], execute: Run = run) -> Recording:
    """Convert the corpus inside `image`. Raises InfrastructureError where the container does not answer."""
    name = f"tito-{run_id}-{side.value}-conversion"
    command = (
        *("docker", "run", "--rm", "--interactive", "--name", name, "--label", f"{LABEL}.run={run_id}"),
        *("--network", "none", "--read-only", "--tmpfs", "/tmp:mode=1777,size=1g", "--cap-drop", "ALL"),  # noqa: S108
        *("--security-opt", "no-new-privileges:true", "--memory", "8g", "--pids-limit", "2048"),
        *("--entrypoint", "python", image, "-c", _SCRIPTS[side].read_text(encoding="utf-8")),
    )
    with tempfile.TemporaryDirectory(prefix="tito-conversion-") as scratch:
        corpus = Path(scratch) / "corpus.json"
        corpus.write_text(json.dumps(_corpus()), encoding="utf-8")
        try:
            done = execute(command, timeout=_SECONDS, env=env, stdin=corpus)
        finally:
            execute(("docker", "rm", "--force", name), timeout=_REMOVE_SECONDS, env=env)
    if not done.ok:
        shape = f"`docker run ... {image} python -c <{_SCRIPTS[side].name}>`"
        ended = f"was stopped after {done.seconds:.0f} s" if done.timed_out else f"ended with {done.code}"
        raise InfrastructureError(f"the conversion of {image} could not be recorded: {shape} {ended}: {done.tail(5)}")
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
        return Recording(side=side, image=image, **answer)
    except (IndexError, ValueError, TypeError) as error:
        raise InfrastructureError(f"the conversion of {image} answered no recording: {error}") from error


def _corpus() -> dict[str, dict[str, Any]]:
    return {
        "requests": {name: asdict(case) for name, case in requests.corpus().items()},
        "replies": {name: asdict(case) for name, case in replies.corpus().items()},
    }


def changes(old: Recording, new: Recording) -> list[Change]:
    """Every place in which a case of `old` comes out differently in `new`; words of a refusal count as well.

    Raises ValueError for recordings of different sides, which are not two versions of one thing.
    """
    if old.side is not new.side:
        raise ValueError(f"a recording of {old.side} cannot be compared with one of {new.side}")
    before, after = old.cases(), new.cases()
    found: list[Change] = []
    for kind, case in dict.fromkeys([*before, *after]):
        one, two = before.get((kind, case)), after.get((kind, case))
        if one is None or two is None:
            there = "in the corpus"
            found.append(Change(kind, case, "the case", there if one else ABSENT, there if two else ABSENT))
        elif one.refused is not None and two.refused is not None:
            if one.refused != two.refused:
                found.append(Change(kind, case, "refused", one.refused, two.refused))
        else:
            parts = compare(one.plain(), two.plain())
            found += [Change(kind, case, part.path, part.ours, part.theirs) for part in parts]
    return found


def write(recording: Recording, path: Path) -> None:
    """Write it as JSON."""
    path.write_text(recording.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Recording:
    """Read it. Raises ConfigurationError where the file is no recording."""
    try:
        return Recording.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError([f"the recording {path} cannot be read: {error.strerror or error}"]) from error
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"])) or "the whole file"
        raise ConfigurationError([f"{path} is no recording of a conversion: {where}: {detail['msg']}"]) from error
