"""The families that the scripted engine speaks, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .coder import NEMOTRON3, QWEN35
from .deepseek import DeepSeek
from .glm import Glm
from .inkling import Inkling
from .minimax import MiniMax
from .qwen3 import Qwen3
from .shape import Answer, Checkpoint, Dialect

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "qwen3": Qwen3(),
        "qwen35": QWEN35,
        "qwen36": QWEN35,
        "glm47": Glm(),
        "nemotron3": NEMOTRON3,
        "deepseekv4": DeepSeek(),
        "inkling": Inkling(),
        "minimax_m27": MiniMax(),
    }
)
"""Qwen3.6 speaks as Qwen3.5 does."""

__all__ = ["DIALECTS", "Answer", "Checkpoint", "Dialect"]
