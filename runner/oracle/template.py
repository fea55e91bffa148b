"""The fixed chat templates of the families, read from the package that brings them. Its text is read, its code not run.

What it does not know: the templates that only a model has (families whose form names none).
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Final

from runner.base.errors import InfrastructureError
from runner.oracle.forms import FORMS, Form

PACKAGE: Final = "miles_tito_tokenizers"
_BESIDE: Final = "chat_template.jinja"
_CONFIG: Final = "tokenizer_config.json"
"""Where older models keep their template."""


def bundled(tito_model: str) -> str | None:
    """The fixed template of this family as text; None for one that uses the model's own, or an encoder.

    Raises InfrastructureError where the family has one and the package that brings it is not installed.
    """
    form = FORMS.get(tito_model)
    if form is None or form.template is None:
        return None
    text = _bundled(form)
    if text is None:
        raise InfrastructureError(
            f"the fixed chat template {form.template} of {tito_model} is not installed",
            f"make venv   # it is part of the package {PACKAGE}",
        )
    return text


def effective(directory: Path, form: Form) -> str:
    """The fixed template of a form; else the one that lies beside the tokenizer in `directory`.

    Raises InfrastructureError where neither is there.
    """
    text = _bundled(form)
    if text is not None:
        return text
    beside = directory / _BESIDE
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    within = _configured(directory / _CONFIG)
    if within:
        return within
    raise InfrastructureError(
        f"no chat template: neither {form.template or 'a bundled one'} nor {beside}",
        hint="the engine image writes it beside the tokenizer; with another model directory install the package "
        f"{PACKAGE} for the fixed templates",
    )


def _configured(path: Path) -> str:
    if not path.is_file():
        return ""
    config = json.loads(path.read_text(encoding="utf-8"))
    template = config.get("chat_template") if isinstance(config, dict) else None
    return template if isinstance(template, str) else ""


def _bundled(form: Form) -> str | None:
    spec = importlib.util.find_spec(PACKAGE) if form.template is not None else None
    if spec is None or spec.origin is None or form.template is None:
        return None
    path = Path(spec.origin).parent / "templates" / form.template
    return path.read_text(encoding="utf-8") if path.is_file() else None
