"""Train a micro model: seeded, and the same bits on one machine.

The threads are fixed because the order of a sum depends on them; the load of the machine changes the duration and
nothing else. Another processor may give other bits, so a trained model is committed, and its figures with it.
"""

# transformers and torch leave these calls untyped; everything that is ours is checked.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

from micro import circuits, corpus, vocabulary
from micro.corpus import Example, Recipe, Stage
from micro.dice import seeded
from micro.families import Family

POOL = 48
"""Dialogues that are sorted by length together, so that a batch holds little padding."""


@dataclass(frozen=True)
class Batch:
    """Right-padded: `ids` and `weights` are `[n_dialogues, n_tokens]`."""

    ids: Tensor
    weights: Tensor


def build(family: Family, tokenizer: Tokenizer) -> Qwen3ForCausalLM:
    """The untrained model of a family."""
    values = family.configuration(
        vocabulary.rows(tokenizer),
        vocabulary.identifier(tokenizer, family.end),
        vocabulary.identifier(tokenizer, family.pad),
    )
    return Qwen3ForCausalLM(Qwen3Config.from_dict(values)).float()


def batches(recipe: Recipe, stage: Stage, family: Family, text: str, tokenizer: Tokenizer) -> Iterator[Batch]:
    """Endless batches of a stage; `text` is the chat template."""
    source = corpus.dialogues(recipe.seed, stage)
    rng = seeded(recipe.seed, stage.turns, "batches")
    while True:
        pool: list[Example] = []
        while len(pool) < POOL:
            example = corpus.encode(next(source), family, text, tokenizer, rng)
            if len(example.ids) <= stage.tokens:
                pool.append(example)
        pool.sort(key=lambda example: len(example.ids))
        groups: list[list[Example]] = [[]]
        for example in pool:
            if groups[-1] and len(example.ids) * (len(groups[-1]) + 1) > recipe.batch_tokens:
                groups.append([])
            groups[-1].append(example)
        rng.shuffle(groups)
        for group in groups:
            width = max(len(example.ids) for example in group)
            ids = torch.zeros(len(group), width, dtype=torch.long)
            weights = torch.zeros(len(group), width)
            for row, example in enumerate(group):
                ids[row, : len(example.ids)] = torch.tensor(example.ids)
                weights[row, : len(example.ids)] = torch.tensor(example.weights)
            yield Batch(ids, weights)


def loss(model: Qwen3ForCausalLM, batch: Batch) -> Tensor:
    """Weighted mean cross-entropy over the learned tokens; only their rows meet the output layer."""
    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state[:, :-1]
    weights = batch.weights[:, 1:]
    chosen = weights > 0
    logits = functional.linear(hidden[chosen], model.lm_head.weight)
    losses = functional.cross_entropy(logits, batch.ids[:, 1:][chosen], reduction="none")
    return (losses * weights[chosen]).sum() / weights[chosen].sum()


def fit(
    recipe: Recipe, family: Family, text: str, tokenizer: Tokenizer, say: Callable[[str], None]
) -> Qwen3ForCausalLM:
    """Train with one seed and give back the averaged weights. `say` gets a progress line now and then."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(recipe.threads)
    torch.use_deterministic_algorithms(True)
    model = build(family, tokenizer)
    circuits.initialise(model, recipe.seed)
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    plain = [weight for weight in model.parameters() if weight.dim() == 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        betas=(0.9, 0.95),
    )
    averaged = [torch.zeros_like(weight) for weight in model.parameters()]
    summed, step, recent = 0, 0, 0.0
    begun = said = time.monotonic()
    for stage in recipe.stages:
        source = batches(recipe, stage, family, text, tokenizer)
        for _ in range(stage.steps):
            for group in optimiser.param_groups:
                group["lr"] = recipe.learning_rate * _schedule(step, recipe)
            value = loss(model, next(source))
            optimiser.zero_grad(set_to_none=True)
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            step += 1
            recent = value.item() if step == 1 else 0.95 * recent + 0.05 * value.item()
            if step > recipe.steps * (1 - recipe.averaged):
                summed += 1
                for total, weight in zip(averaged, model.parameters(), strict=True):
                    total += weight.detach()
            now = time.monotonic()
            if now - said > 10 or step == recipe.steps:
                said = now
                left = (now - begun) / step * (recipe.steps - step)
                say(f"step {step}/{recipe.steps}  loss {recent:.4f}  {now - begun:.0f} s, about {left:.0f} s left")
    with torch.no_grad():
        for total, weight in zip(averaged, model.parameters(), strict=True):
            weight.copy_(total / summed)
    return model.eval()


def _schedule(step: int, recipe: Recipe) -> float:
    """Share of the learning rate at `step`: a linear warm-up, then a half cosine down to 2 %."""
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    done = (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))
