"""The committed model belongs to the committed scripts, and its recorded figures are good enough."""

from __future__ import annotations

import json
from pathlib import Path

from micro import manifest
from micro.corpus import Recipe, Stage, fingerprint
from micro.evaluate import TARGET, Count, Figures
from micro.families import Family


def recorded(directory: Path) -> tuple[Recipe, dict[str, object]]:
    """The recipe in the manifest, and the manifest."""
    values = manifest.read(directory)
    fields = dict(values["recipe"])  # type: ignore[arg-type]
    fields["stages"] = tuple(Stage(**stage) for stage in fields["stages"])
    return Recipe(**fields), dict(values)


def test_the_model_was_trained_on_the_corpus_that_the_scripts_generate(directory: Path) -> None:
    """Red after a change of wordings, generator or recipe: train again."""
    recipe, values = recorded(directory)
    assert recipe == Recipe().with_seed(recipe.seed)
    assert values["corpus_sha256"] == fingerprint(recipe)


def test_the_files_are_the_ones_that_were_measured(directory: Path) -> None:
    _, values = recorded(directory)
    assert values["files_sha256"] == {
        name: manifest.digest(directory / name) for name in ("model.safetensors", "tokenizer.json", "config.json")
    }


def test_the_configuration_is_the_familys(directory: Path, family: Family) -> None:
    config = json.loads((directory / "config.json").read_text())
    assert config == family.configuration(config["vocab_size"], config["eos_token_id"], config["pad_token_id"])


def test_the_recorded_figures_reach_the_target(directory: Path) -> None:
    _, values = recorded(directory)
    counts = values["evaluation"]
    assert isinstance(counts, dict)
    figures = Figures(**{name: Count(*counts[name]) for name in ("calls", "texts", "cities", "spelled")})
    assert figures.calls.total >= 100 and figures.texts.total >= 100
    assert figures.shortfalls(TARGET) == []


def test_the_model_is_of_the_order_of_a_million_weights(directory: Path) -> None:
    _, values = recorded(directory)
    assert 600_000 < int(str(values["weights"])) < 1_500_000
    assert (directory / "model.safetensors").stat().st_size < 8_000_000


def test_no_template_text_is_committed(directory: Path) -> None:
    """The template is written at image build, from its package."""
    assert not (directory / "chat_template.jinja").exists()
    assert "chat_template" not in json.loads((directory / "tokenizer_config.json").read_text())
