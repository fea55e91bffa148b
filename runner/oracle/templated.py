"""A conversation as a chat template writes it, through `transformers`: an independent reading of the template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol, cast

from pydantic import JsonValue

from runner.agents.records import JsonObject


class _Renderer(Protocol):
    """What is used of a `transformers` tokenizer."""

    def apply_chat_template(self, conversation: list[JsonObject], **options: object) -> object:
        """The conversation as text."""


class Templated:
    """Writes conversations with `template`; `arguments` go to it, special tokens come from `directory`."""

    def __init__(self, template: str, arguments: Mapping[str, JsonValue], directory: Path) -> None:
        self._template = template
        self._arguments = arguments
        self._directory = directory

    def prepare(self) -> None:
        """Import `transformers` and read the tokenizer: seconds of computing."""
        _ = self._renderer

    def write(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, prompt: bool) -> str:
        """The conversation; with `prompt` the next turn is opened. Raises whatever the template raises."""
        rendered = self._renderer.apply_chat_template(
            list(messages),
            tools=list(tools) if tools else None,
            chat_template=self._template,
            add_generation_prompt=prompt,
            tokenize=False,
            **self._arguments,
        )
        return str(rendered)

    @cached_property
    def _renderer(self) -> _Renderer:
        from transformers import PreTrainedTokenizerFast

        config = self._directory / "tokenizer_config.json"
        known: JsonObject = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
        names = {key: known[key] for key in ("bos_token", "eos_token", "pad_token", "unk_token") if key in known}
        file = str(self._directory / "tokenizer.json")
        return cast("_Renderer", PreTrainedTokenizerFast(tokenizer_file=file, **names))  # type: ignore[no-untyped-call]
