"""From dialogues to token ids and loss weights, reproducible from one seed.

Pieces are encoded one by one, as a session server does: what the template wrote and what the model sampled never share
a token. Only assistant turns that an engine would have sampled carry loss.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from tokenizers import Tokenizer

from micro import template, vocabulary
from micro.dialogues import generate
from micro.dice import seeded
from micro.families import Family
from micro.turns import Dialogue, Spacing, Turn

COPIED_WEIGHT = 2.0
OPENING_WEIGHT = 3.0
OPENING = 28
"""Characters of a turn that decide its kind (the tag and the first words of the thinking)."""
SPLIT = 0.3
"""Share of forced calls that are cut into tokens at random as well."""
SEAM = 0.75
"""Chance of a cut at each of the family's seams: a grammar masks the tokens that the model would write there, so an
engine's forced calls are mostly not split as the tokenizer splits them."""


@dataclass(frozen=True)
class Stage:
    """A part of the training: `steps` optimiser steps on dialogues of at most `tokens` tokens."""

    steps: int
    turns: int
    """Client messages of a dialogue, at most."""
    tokens: int


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the corpus and the training besides the code; hashed into the manifest."""

    seed: int = 1
    vocabulary_dialogues: int = 1500
    stages: tuple[Stage, ...] = (Stage(120, 2, 420), Stage(330, 8, 800), Stage(450, 24, 1800))
    batch_tokens: int = 2560
    learning_rate: float = 3e-3
    warmup: int = 30
    weight_decay: float = 0.05
    averaged: float = 0.2
    """Last share of the steps over which the weights are averaged."""
    threads: int = 2
    """Threads of the training: sums depend on it, so it is part of the recipe."""

    def with_seed(self, seed: int) -> Recipe:
        """The same recipe with another seed."""
        return Recipe(**{**asdict(self), "seed": seed, "stages": self.stages})

    @property
    def steps(self) -> int:
        """Optimiser steps in all."""
        return sum(stage.steps for stage in self.stages)


@dataclass(frozen=True)
class Example:
    """`ids` and `weights` are `[n_tokens]`; a weight is 0 where the token is not learned."""

    ids: list[int]
    weights: list[float]


def dialogues(seed: int, stage: Stage) -> Iterator[Dialogue]:
    """Endless dialogues of a stage."""
    rng = seeded(seed, stage.turns)
    while True:
        yield generate(rng, rng.randint(1, stage.turns))


def fingerprint(recipe: Recipe) -> str:
    """sha256 over the recipe and a sample of the dialogues: changes with wordings, generator and numbers."""
    numbers = {**asdict(recipe), "weights": [COPIED_WEIGHT, OPENING_WEIGHT, OPENING], "cuts": [SPLIT, SEAM]}
    digest = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode())
    for stage in recipe.stages:
        source = dialogues(recipe.seed, stage)
        for _ in range(100):
            digest.update(json.dumps(asdict(next(source)), sort_keys=True).encode())
    return digest.hexdigest()


def texts(recipe: Recipe, family: Family, text: str) -> Iterator[str]:
    """Rendered dialogues for the training of the tokenizer; `text` is the chat template."""
    source = dialogues(recipe.seed, recipe.stages[1])
    for _ in range(recipe.vocabulary_dialogues):
        yield "".join(
            piece if isinstance(piece, str) else family.write(piece)
            for piece in template.render(family, text, next(source))
        )


def encode(dialogue: Dialogue, family: Family, text: str, tokenizer: Tokenizer, rng: random.Random) -> Example:
    """Token ids and loss weights of one dialogue; `text` is the chat template."""
    ids: list[int] = []
    weights: list[float] = []
    end = vocabulary.identifier(tokenizer, family.end)
    owed = False  # the end token after a learned turn is written by the template but sampled by the model
    for piece in template.render(family, text, dialogue):
        if isinstance(piece, str):
            new = tokenizer.encode(piece, add_special_tokens=False).ids
            ids += new
            weights += [0.0] * len(new)
            if owed:
                if new[:1] != [end]:
                    raise ValueError(f"{family.template}: an assistant turn does not end with {family.end}")
                weights[-len(new)] = 1.0
                owed = False
            continue
        written = family.write(piece)
        owed = piece.learned
        values = character_weights(written, piece, family)
        for start, stop in _cuts(written, piece, family, rng):
            encoding = tokenizer.encode(written[start:stop], add_special_tokens=False)
            ids += encoding.ids
            weights += [max(values[start + a : start + b], default=0.0) for a, b in encoding.offsets]
    return Example(ids, weights)


def character_weights(written: str, turn: Turn, family: Family) -> list[float]:
    """The loss weight of each character of a turn.

    What a grammar forces weighs nothing: where no grammar forces it the model must write the template's own spacing.
    """
    if not turn.learned:
        return [0.0] * len(written)
    values = [OPENING_WEIGHT] * min(OPENING, len(written)) + [1.0] * max(0, len(written) - OPENING)
    if turn.spacing is not Spacing.TEMPLATE:
        first, last = _forced(written, family)
        values[first:last] = [0.0] * (last - first)
    for value in turn.copied:
        at = written.find(value)
        while at >= 0:
            for index in range(at, at + len(value)):
                values[index] = max(values[index], COPIED_WEIGHT)
            at = written.find(value, at + 1)
    return values


def _forced(written: str, family: Family) -> tuple[int, int]:
    """The span of a call that a grammar wrote: its tag up to the opening of its arguments."""
    first = written.index(family.forced)
    return first, first + len(family.forced)


def _cuts(written: str, turn: Turn, family: Family, rng: random.Random) -> list[tuple[int, int]]:
    """Spans that are encoded on their own: the whole turn, or the parts of a forced call."""
    marks = {0, len(written)}
    if turn.spacing is not Spacing.TEMPLATE:
        first, last = _forced(written, family)
        marks.update(written.index(seam, first) + len(seam) for seam in family.seams if rng.random() < SEAM)
        if rng.random() < SPLIT:
            inside = written.index("\n", first)  # never inside the tag, which is one token
            marks.update(rng.randint(inside, last + 1) for _ in range(rng.randint(1, 3)))
    return list(itertools.pairwise(sorted(marks)))
