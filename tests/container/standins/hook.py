"""Stands in for `nvidia-container-runtime-hook`: puts one device file per device into the container, and keeps a list.

As the real one it is called before the container's own process starts, with the container's state on standard input,
finds what is asked for in the container's environment, and refuses devices that are not there. A file `hook.broken`
beside the inventory makes it fail with that text.
"""

import json
import subprocess
import sys
from pathlib import Path

place = Path(__file__).resolve().parents[1]
state = json.load(sys.stdin)
config = json.loads((Path(state["bundle"]) / "config.json").read_text())
environment = dict(entry.split("=", 1) for entry in config["process"]["env"])
asked = environment["NVIDIA_VISIBLE_DEVICES"]
broken = place / "hook.broken"
if broken.is_file():
    sys.exit(f"nvidia-container-cli: {broken.read_text().strip()}")
there = json.loads((place / "inventory.json").read_text())
wanted = there if asked == "all" else asked.split(",")
unknown = [device for device in wanted if device not in there]
if unknown:
    sys.exit(f"nvidia-container-cli: device error: {', '.join(unknown)}: unknown device")
root = Path(config["root"]["path"])
files = [str(root / "dev" / f"nvidia{device}") for device in wanted]
subprocess.run(["nsenter", "--target", str(state["pid"]), "--mount", "touch", *files], check=True)
with (place / "hook.jsonl").open("a") as log:
    log.write(json.dumps({"container": state["id"], "devices": asked}) + "\n")
