"""Facts about this machine and this checkout. Needs no Docker."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from runner import __version__


def checkout(root: Path) -> dict[str, Any]:
    """Commit of this checkout and whether it was changed; empty where git cannot tell."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return {}
    return {"commit": commit, "changed": bool(git("status", "--porcelain", "--untracked-files=no"))}


def here(root: Path) -> dict[str, Any]:
    """What every environment.json begins with: this program and the machine that it runs on."""
    return {
        "tito_e2e": {"version": __version__, **checkout(root)},
        "host": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
    }
