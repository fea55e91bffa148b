"""The tokenizer and chat template that a run was measured with, kept in its artifacts so that it can be judged again.

They are small, and without them recorded ids are numbers. Their digests lie beside them: a file that was changed on its
way is found, instead of being measured with.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import orjson

from runner.base.errors import IncompleteError

MODELS = "models"
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""What is kept, as far as the model directory has it; never the weights."""
DIGESTS = "sha256.json"


def models_path(run: Path, family: str) -> Path:
    """Where the files of one family lie below the artifacts directory of a run."""
    return run / MODELS / family


def keep_models(source: Path, run: Path, family: str) -> Path:
    """Copy the files of `source` into the artifacts of a run, with their digests; the place is returned."""
    target = models_path(run, family)
    target.mkdir(parents=True, exist_ok=True)
    digests = {}
    for name in FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
            digests[name] = hashlib.sha256((target / name).read_bytes()).hexdigest()
    (target / DIGESTS).write_bytes(orjson.dumps(digests, option=orjson.OPT_INDENT_2))
    return target


def kept_models(run: Path, family: str) -> Path:
    """The directory of one family's files, every one of them as it was kept.

    Raises IncompleteError that names what is missing or changed.
    """
    place = models_path(run, family)
    try:
        digests = orjson.loads((place / DIGESTS).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise IncompleteError(
            f"{MODELS}/{family}: tokenizer and chat template are not among the artifacts, or their list cannot be read"
            f" ({error}); name a directory that has {family}/tokenizer.json with --models"
        ) from error
    if not isinstance(digests, dict):
        raise IncompleteError(f"{MODELS}/{family}/{DIGESTS} is not a list of digests")
    unlisted = [name for name in FILES if name not in digests and (place / name).exists()]
    if unlisted or not digests:
        raise IncompleteError(
            f"{MODELS}/{family}/{DIGESTS} has no digest of {', '.join(unlisted) or FILES[0]}, so it is not known"
            " whether the run was measured with that file"
        )
    for name, digest in digests.items():
        try:
            seen = hashlib.sha256((place / name).read_bytes()).hexdigest()
        except OSError as error:
            raise IncompleteError(f"{MODELS}/{family}/{name} cannot be read ({error.strerror or error})") from error
        if seen != digest:
            raise IncompleteError(f"{MODELS}/{family}/{name} is not the file that the run was measured with")
    return place
