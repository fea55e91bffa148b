"""Where the project stands on this machine: its folders and the choices that concern the ground.

Plain data; it reads the environment once, when it is made, and creates no folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner.plan.model import EngineKind

IMAGE_PREFIX = "tito-e2e"
LABEL = "io.github.tito-e2e"
"""Prefix of every label of ours: on containers, networks, volumes (`.run`) and on images (`.image`, `.base`)."""

RUN_LABEL = f"{LABEL}.run"


@dataclass(frozen=True)
class Site:
    """One checkout on one machine."""

    root: Path
    """The repository."""
    state: Path
    """What belongs to this user on this machine, whichever checkout: locks, logs of daemons."""
    base_image: str = ""
    """BASE_IMAGE: taken as it is when set."""
    engine: EngineKind = EngineKind.CPU
    gpus: tuple[str, ...] = field(default=())
    """Device ids that a run wants; empty means any."""

    @property
    def cache(self) -> Path:
        """What this checkout may throw away: downloads, build logs."""
        return self.root / ".cache"

    @property
    def logs(self) -> Path:
        """Logs of installations and image builds."""
        return self.cache / "logs"

    @property
    def locks(self) -> Path:
        """Lock files, shared by all checkouts of this user."""
        return self.state / "locks"

    @classmethod
    def here(
        cls,
        root: Path,
        environ: Mapping[str, str] | None = None,
        *,
        base_image: str | None = None,
        engine: EngineKind = EngineKind.CPU,
        gpus: tuple[str, ...] = (),
    ) -> Site:
        """The site of `root` with XDG_STATE_HOME and BASE_IMAGE of `environ` (default: this process's)."""
        environ = os.environ if environ is None else environ
        state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".local/state")
        chosen = environ.get("BASE_IMAGE", "") if base_image is None else base_image
        return cls(root.resolve(), Path(state) / "tito-e2e", chosen, engine, gpus)
