"""The torch model as an evaluation back end: batched sampling with a cache, and a stand-in for the tool grammar.

The stand-in forces the fixed text of a named tool choice token by token, as the engine's grammar does, so that the
model meets the same unusual token splits; what follows in the arguments is free here and constrained there.
"""

# transformers and torch leave these calls untyped; everything that is ours is checked.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, Qwen3ForCausalLM

from micro import vocabulary
from micro.backend import LIMIT, Request, Sample
from micro.families import Family

BATCH_TOKENS = 24_000
"""Prompt tokens, padding included, that are sampled together."""


class Grammar(LogitsProcessor):
    """Masks every token that does not go on with the forced text, from the end of the reasoning on."""

    def __init__(self, family: Family, tokenizer: Tokenizer, rows: int, prompt: int, forced: Sequence[bool]) -> None:
        self._texts = [
            tokenizer.decode([index], skip_special_tokens=False) for index in range(tokenizer.get_vocab_size())
        ]
        self._texts += [""] * (rows - len(self._texts))
        self._text = family.forced
        self._end = vocabulary.identifier(tokenizer, family.reasoning_end)
        self._prompt = prompt
        self._forced = forced
        self._masks: dict[int, Tensor] = {}

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores `[n_rows, n_vocabulary]` with forbidden tokens at minus infinity."""
        for row, forced in enumerate(self._forced):
            new = input_ids[row, self._prompt :].tolist()
            if not forced or self._end not in new:
                continue
            written = "".join(self._texts[index] for index in new[new.index(self._end) + 1 :])
            if len(written) <= len(self._text):
                scores[row] = scores[row].masked_fill(self._mask(len(written)), float("-inf"))
        return scores

    def _mask(self, at: int) -> Tensor:
        if at not in self._masks:
            rest = self._text[at:]
            self._masks[at] = torch.tensor([not _goes_on(rest, text) for text in self._texts])
        return self._masks[at]


class Local:
    """A model directory, or a model in memory, sampled with torch."""

    def __init__(
        self, model: Qwen3ForCausalLM, tokenizer: Tokenizer, family: Family, temperature: float, seed: int
    ) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._family = family
        self._temperature = temperature
        self._seed = seed
        self._calls = 0

    @classmethod
    def load(cls, directory: Path, family: Family, temperature: float, seed: int) -> Local:
        """Open a model directory."""
        model = Qwen3ForCausalLM.from_pretrained(directory, dtype=torch.float32)
        return cls(model, vocabulary.load(directory), family, temperature, seed)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """One sample per request, in order; requests of like length share a batch."""
        order = sorted(range(len(requests)), key=lambda index: len(requests[index].ids))
        samples: dict[int, Sample] = {}
        while order:
            count = 1
            while count < len(order) and len(requests[order[count]].ids) * (count + 1) <= BATCH_TOKENS:
                count += 1
            chosen, order = order[:count], order[count:]
            samples.update(zip(chosen, self._batch([requests[index] for index in chosen]), strict=True))
        return [samples[index] for index in range(len(requests))]

    def _batch(self, requests: Sequence[Request]) -> list[Sample]:
        # The seed moves with the calls: sampling must not repeat the same draws for the same shape.
        torch.manual_seed(self._seed * 1_000_003 + self._calls)
        self._calls += 1
        pad = vocabulary.identifier(self._tokenizer, self._family.pad)
        end = vocabulary.identifier(self._tokenizer, self._family.end)
        width = max(len(request.ids) for request in requests)
        ids = torch.full((len(requests), width), pad)
        mask = torch.zeros_like(ids)
        for row, request in enumerate(requests):
            ids[row, width - len(request.ids) :] = torch.tensor(request.ids)
            mask[row, width - len(request.ids) :] = 1
        grammar = Grammar(
            self._family,
            self._tokenizer,
            self._model.config.vocab_size,
            width,
            [request.choice == "named" for request in requests],
        )
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=self._temperature > 0,
                temperature=self._temperature if self._temperature > 0 else None,
                top_k=0,
                top_p=1.0,
                max_new_tokens=LIMIT,
                eos_token_id=end,
                pad_token_id=pad,
                logits_processor=LogitsProcessorList([grammar]),
            )
        samples = []
        for row in output[:, width:].tolist():
            ended = end in row
            new = row[: row.index(end) + 1] if ended else row
            text = self._tokenizer.decode(new[:-1] if ended else new, skip_special_tokens=False)
            samples.append(Sample(new, ended, self._family.parse(text)))
        return samples


def _goes_on(rest: str, text: str) -> bool:
    """Whether a token goes on with what is left of the forced text, or opens the arguments object after it."""
    return bool(text) and (rest.startswith(text) or text.startswith(rest + "{"))
