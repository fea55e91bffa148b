"""`python -m scripted_engine`: serve a family on 0.0.0.0, port 30000 (`SCRIPTED_ENGINE_PORT`).

The family is `FAMILY`, as for the real engine's image, and its directory lies in /models; `SCRIPTED_ENGINE_MODEL` names
another directory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvicorn

from .app import build
from .engine import ScriptedEngine
from .faults import VARIABLE, read_faults

_MODELS = Path("/models")


def main() -> None:
    """Serve until the process is ended."""
    faults = read_faults(os.environ.get(VARIABLE) or "[]")
    family = os.environ.get("FAMILY") or "qwen3"
    directory = Path(os.environ.get("SCRIPTED_ENGINE_MODEL") or _MODELS / family)
    if not (directory / "tokenizer.json").is_file():
        known = ", ".join(sorted(path.name for path in _MODELS.glob("*/"))) or "none"
        sys.exit(f"the scripted engine has no model directory {directory}; in {_MODELS} there are: {known}")
    engine = ScriptedEngine(directory, [fault for fault in faults if fault.family in (None, family)])
    port = int(os.environ.get("SCRIPTED_ENGINE_PORT") or "30000")
    uvicorn.run(build(engine), host="0.0.0.0", port=port, access_log=False, timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()
