"""Token prompts as a token-owning session server builds them: template text encoded, sampled ids reused unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

from micro import template, vocabulary
from micro.families import Family
from micro.turns import Dialogue


def build(
    dialogue: Dialogue, sampled: Sequence[list[int]], family: Family, text: str, tokenizer: Tokenizer
) -> list[int]:
    """The ids of a prompt, `[n_tokens]`, generation prompt included.

    `sampled` holds the ids of the dialogue's sampled turns in order, each with or without the end token; `text` is the
    chat template. Raises ValueError where the numbers of turns differ.
    """
    end = vocabulary.identifier(tokenizer, family.end)
    ids: list[int] = []
    used = 0
    for piece in template.render(family, text, dialogue, opened=True):
        if isinstance(piece, str):
            # The template ends a turn that the model has already ended.
            ended = used > 0 and ids[-1] == end
            ids += tokenizer.encode(piece.removeprefix(family.end) if ended else piece, add_special_tokens=False).ids
        else:
            if used == len(sampled):
                raise ValueError(f"the dialogue has more sampled turns than the {len(sampled)} whose ids are given")
            ids += sampled[used]
            used += 1
    if used != len(sampled):
        raise ValueError(f"the dialogue has {used} sampled turns, and ids are given for {len(sampled)}")
    return ids
