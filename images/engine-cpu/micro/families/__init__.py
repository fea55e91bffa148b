"""The families that have a micro model, by name.

A family is added by a module beside qwen3.py and one entry here; nothing else in the package knows a family's syntax.
"""

from __future__ import annotations

from micro.families.qwen3 import QWEN3
from micro.families.shape import Family

FAMILIES: dict[str, Family] = {QWEN3.name: QWEN3}

__all__ = ["FAMILIES", "Family"]
