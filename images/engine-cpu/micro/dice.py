"""Seeded randomness: every choice of corpus, training order and evaluation comes from a generator made here."""

from __future__ import annotations

import random


def seeded(*parts: int | str | bool) -> random.Random:
    """A generator that is a function of `parts` alone, on every machine."""
    return random.Random("/".join(str(part) for part in parts))  # noqa: S311 - reproducible on purpose, no secret
