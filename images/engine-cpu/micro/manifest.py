"""manifest.json: where a trained model comes from and how good it was, committed beside its weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from micro.corpus import Recipe, fingerprint
from micro.evaluate import Figures
from micro.families import Family
from micro.turns import JsonObject

FILE = "manifest.json"
PACKAGES = ("torch", "transformers", "tokenizers", "miles-tito-tokenizers")


def digest(path: Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compose(
    directory: Path, family: Family, recipe: Recipe, weights: int, figures: Figures, evaluation: JsonObject
) -> JsonObject:
    """The manifest of the model in `directory`; `weights` is the number of parameters."""
    files = ("model.safetensors", "tokenizer.json", "config.json")
    return {
        "family": family.name,
        "template": family.template,
        "weights": weights,
        "recipe": json.loads(json.dumps(asdict(recipe))),
        "corpus_sha256": fingerprint(recipe),
        "files_sha256": {name: digest(directory / name) for name in files},
        "versions": {name: version(name) for name in PACKAGES},
        "evaluation": {**evaluation, **figures.record()},
    }


def write(directory: Path, manifest: JsonObject) -> None:
    """Write the manifest."""
    (directory / FILE).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def read(directory: Path) -> JsonObject:
    """The manifest of a model directory. Raises FileNotFoundError, ValueError."""
    value = json.loads((directory / FILE).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{directory / FILE} holds no JSON object")
    return value
