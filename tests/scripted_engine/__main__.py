"""`python -m scripted_engine`: serve on 0.0.0.0, port 30000 (`SCRIPTED_ENGINE_PORT`), over `SCRIPTED_ENGINE_MODEL`."""

from __future__ import annotations

import os
from pathlib import Path

import uvicorn

from .app import build
from .engine import ScriptedEngine
from .faults import VARIABLE, read_faults


def main() -> None:
    """Serve until the process is ended."""
    faults = read_faults(os.environ.get(VARIABLE) or "[]")
    engine = ScriptedEngine(Path(os.environ.get("SCRIPTED_ENGINE_MODEL") or "/models/qwen3"), faults)
    port = int(os.environ.get("SCRIPTED_ENGINE_PORT") or "30000")
    uvicorn.run(build(engine), host="0.0.0.0", port=port, access_log=False, timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()
