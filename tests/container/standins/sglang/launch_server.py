"""Stands in for `python3 -m sglang.launch_server` of the official image: a scripted engine behind it.

It takes the flags that a GPU lease is started with and no others, reads the model from the cache as SGLang does, and
does not start where the devices that it finds are not as many as the flags need. What it found is its first line.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import uvicorn
from scripted_engine.app import build
from scripted_engine.engine import ScriptedEngine
from scripted_engine.faults import VARIABLE, read_faults

parser = argparse.ArgumentParser(allow_abbrev=False)
for flag in ("--model-path", "--host", "--reasoning-parser", "--tool-call-parser"):
    parser.add_argument(flag, required=True)
for flag in ("--port", "--context-length", "--tensor-parallel-size"):
    parser.add_argument(flag, required=True, type=int)
for flag in ("--data-parallel-size", "--expert-parallel-size"):
    parser.add_argument(flag, type=int, default=1)
parser.add_argument("--chat-template", type=Path)
told = parser.parse_args()

devices = sorted(path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia*"))
template = told.chat_template.read_bytes() if told.chat_template else b""
seen = {
    "devices": devices,
    "visible": os.environ.get("NVIDIA_VISIBLE_DEVICES"),
    "flags": vars(told) | {"chat_template": str(told.chat_template)},
    "template": hashlib.sha256(template).hexdigest(),
    "shared_memory": shutil.disk_usage("/dev/shm").total,
    "user": os.getuid(),
}
print("stand-in: " + json.dumps(seen), flush=True)
needed = told.tensor_parallel_size * told.data_parallel_size
if len(devices) != needed:
    sys.exit(f"RuntimeError: {needed} devices are needed and {len(devices)} are here")
cached = Path(os.environ["HF_HOME"]) / "hub" / f"models--{told.model_path.replace('/', '--')}"
model = cached / "snapshots" / (cached / "refs" / "main").read_text().strip()
engine = ScriptedEngine(model, read_faults(os.environ.get(VARIABLE) or "[]"))
uvicorn.run(build(engine), host=told.host, port=told.port, access_log=False, timeout_graceful_shutdown=2)
