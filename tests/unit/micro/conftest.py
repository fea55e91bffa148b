"""The micro package lives with the engine image; its tests run here without torch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

IMAGE = Path(__file__).resolve().parents[3] / "images" / "engine-cpu"
if str(IMAGE) not in sys.path:
    sys.path.insert(0, str(IMAGE))

from micro import template, vocabulary  # noqa: E402
from micro.families import FAMILIES, Family  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


@pytest.fixture(scope="session")
def family() -> Family:
    """The family under test."""
    return FAMILIES["qwen3"]


@pytest.fixture(scope="session")
def directory(family: Family) -> Path:
    """The committed model."""
    return IMAGE / "models" / family.name


@pytest.fixture(scope="session")
def chat_template(family: Family) -> str:
    """The family's fixed chat template."""
    return template.read(family)


@pytest.fixture(scope="session")
def tokenizer(directory: Path) -> Tokenizer:
    """The committed tokenizer."""
    return vocabulary.load(directory)
