"""Stands in for `nvidia-smi`: the devices of inventory.json beside the folder it lies in, all of their memory free."""

import json
import sys
from pathlib import Path

TOTAL, FREE = 81559, 81004

place = Path(__file__).resolve().parents[1]
asked = [word for word in sys.argv[1:] if word.startswith("--query-")]
if not asked:
    sys.exit("this stand-in only answers queries")
name, _, fields = asked[0].partition("=")
if name == "--query-gpu":
    for index in json.loads((place / "inventory.json").read_text()):
        known = {
            "index": index,
            "uuid": f"GPU-stand-in-{index}",
            "name": "NVIDIA stand-in",
            "memory.total": str(TOTAL),
            "memory.free": str(FREE),
            "driver_version": "570.00",
        }
        print(", ".join(known[field] for field in fields.split(",")))
