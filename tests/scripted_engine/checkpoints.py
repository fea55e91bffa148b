"""Model directories without a model: a small tokenizer of the family's shape, made here, and its chat template.

Byte-level BPE, so that one text has many token sequences, with the family's special tokens. Fixed templates are taken
from the installed package that brings them and never copied into this repository; for a model whose own template is
not to be had, a stand-in of ours lies in `templates/`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from .dialects import DIALECTS, Checkpoint
from .engine import MARK

PACKAGE = "miles_tito_tokenizers"
SIZE = 1024
"""Entries before the added tokens."""
_SPARE = 16
"""Rows of the model that no token has, as real checkpoints are padded."""

_CORPUS = (
    "You are a weather assistant. Use the get_weather tool whenever the user asks about the weather in a city.",
    "Answer one question at a time. Summarise only when you are asked to, and put the summary inside tags.",
    "What's the weather in Beijing? Now check the weather in Shanghai. Now check the weather in Tokyo, Paris, London.",
    '{"type": "function", "function": {"name": "get_weather", "description": "Get the current weather in a city."}}',
    '{"parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}}',
    '{"temperature": 22, "condition": "sunny", "humidity": 40} cloudy rainy windy 15 8 30 65 90',
    "The user wants the weather in Beijing. I should answer with the report. This needs a summary now. Next comes it.",
    "It is sunny in Beijing at 22 degrees. I looked at the weather in Beijing, Shanghai, Tokyo. How can I help you?",
    "Reminder: keep it short. Understood. One question at a time, and short. The service is temporarily unavailable.",
    "user assistant system tool model\n\nnaïve 東京 Zürich 🙂 <function=name>\n<parameter=key>\nvalue\n</parameter>",
)


class TemplateMissingError(RuntimeError):
    """The package with the fixed templates, or a family's file in it, is not there."""


def write(name: str, directory: Path, templates: Path | None = None) -> Path:
    """Make the model directory of the family `name`; `templates` is where the package's templates lie.

    Raises TemplateMissingError where the family's fixed template is not found.
    """
    shape = DIALECTS[name].checkpoint
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(shape)
    tokenizer.save(str(directory / "tokenizer.json"))
    rows = tokenizer.get_vocab_size(with_added_tokens=True) + _SPARE
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": shape.eos, "clean_up_tokenization_spaces": False}
    _write_json(directory / "tokenizer_config.json", told)
    _write_json(directory / "config.json", {"model_type": shape.model_type, "vocab_size": rows, MARK: name})
    write_template(name, directory, templates)
    return directory


def write_template(name: str, directory: Path, templates: Path | None = None) -> None:
    """Put the family's chat template beside its tokenizer, if it has one. Raises TemplateMissingError."""
    template = _template(DIALECTS[name].checkpoint, templates)
    if template is not None:
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")


def _tokenizer(shape: Checkpoint) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in shape.special])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in shape.plain])
    return tokenizer


def _template(shape: Checkpoint, templates: Path | None) -> str | None:
    if shape.stand_in:
        return (Path(__file__).with_name("templates") / shape.stand_in).read_text(encoding="utf-8")
    if not shape.template:
        return None
    spec = find_spec(PACKAGE) if templates is None else None  # located, not imported: that would load transformers
    if spec is not None and spec.submodule_search_locations:
        templates = Path(spec.submodule_search_locations[0]) / "templates"
    file = templates / shape.template if templates is not None else None
    if file is None or not file.is_file():
        raise TemplateMissingError(f"the fixed template {shape.template} is not there: is {PACKAGE} installed?")
    return file.read_text(encoding="utf-8")


def _write_json(path: Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m scripted_engine.checkpoints INTO`: every family, as far as INTO does not have it yet."""
    parser = argparse.ArgumentParser(description="Make a model directory for every family of the scripted engine.")
    parser.add_argument("into", type=Path, help="directory that gets one directory per family")
    parser.add_argument("--templates", type=Path, help="where the fixed templates lie, if not in the installed package")
    told = parser.parse_args(arguments)
    for name in DIALECTS:
        directory = told.into / name
        if (directory / "tokenizer.json").is_file():
            write_template(name, directory, told.templates)
        else:
            write(name, directory, told.templates)


if __name__ == "__main__":
    main()
