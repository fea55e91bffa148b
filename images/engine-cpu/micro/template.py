"""The family's fixed chat template: found in its package, written beside a model, rendered.

The text of a template belongs to its authors and is never copied into this repository; it is written into the model
directory when an image is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from micro.families import Family
from micro.turns import Dialogue, JsonObject, Turn

PACKAGE = "miles_tito_tokenizers"
FILE = "chat_template.jinja"
MARK = "\ue000{index}\ue001"
"""Stands for an assistant turn while the template renders: private-use characters, which no wording contains."""


class TemplateMissingError(RuntimeError):
    """The package with the fixed templates, or the family's file in it, is not there."""


def read(family: Family) -> str:
    """The text of the family's fixed template. Raises TemplateMissingError."""
    # The package is located, not imported: importing it would load transformers for a file copy.
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise TemplateMissingError(
            f"family {family.name}: the Python package {PACKAGE!r} is not installed, so its chat template "
            f"{family.template!r} cannot be read; install the version that the lock file pins"
        )
    path = Path(spec.submodule_search_locations[0]) / "templates" / family.template
    if not path.is_file():
        raise TemplateMissingError(
            f"family {family.name}: {path} does not exist; does the pinned {PACKAGE} still carry it?"
        )
    return path.read_text(encoding="utf-8")


def render(
    family: Family, text: str, dialogue: Dialogue, opened: bool = False, options: Mapping[str, bool] | None = None
) -> list[str | Turn]:
    """Render a dialogue and give back what the template wrote, cut at the assistant turns.

    The pieces alternate between template text and turns that carry their reasoning; a turn whose reasoning the template
    drops is text. Joined, with each turn written by the family, they are the prompt. `opened` ends with the generation
    prompt. `options` replaces the template arguments of the family.
    """
    from transformers.utils.chat_template_utils import render_jinja_template

    turns: list[Turn] = []
    messages: list[JsonObject] = []
    for message in dialogue.messages:
        if isinstance(message, Turn):
            messages.append({"role": "assistant", "content": MARK.format(index=len(turns))})
            turns.append(message)
        else:
            messages.append(message)
    if options is None:
        options = {} if dialogue.fresh else family.template_options
    arguments: dict[str, Any] = {"add_generation_prompt": opened, **options}
    if dialogue.tools:
        arguments["tools"] = list(dialogue.tools)
    rest = str(render_jinja_template(conversations=[messages], chat_template=text, **arguments)[0][0])
    pieces: list[str | Turn] = []
    for index, turn in enumerate(turns):
        before, found, rest = rest.partition(MARK.format(index=index))
        if not found:
            raise ValueError(f"{family.template}: the template wrote no text for assistant turn {index}")
        if turn.thinks and before.endswith(family.opening):
            pieces += [before.removesuffix(family.opening), turn]
        else:
            pieces.append(before + family.visible(turn))
    return [*pieces, rest]
