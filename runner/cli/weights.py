"""The files of a real model on this host, and the chat template that it is served with. Needs no Docker.

The weights are looked for in the model cache, because nothing is downloaded at run time: a model that is not there yet
would fail half an hour later, in a container, with a message about the network.
"""

from __future__ import annotations

import stat
from pathlib import Path, PurePosixPath

from runner.base.errors import InfrastructureError
from runner.base.settings import Settings
from runner.cli.stacks import ROOT
from runner.oracle.template import bundled
from runner.plan.model import PlannedLease
from runner.stack.override import CACHE

_SERVER_TEMPLATES = Path("images/session-server/session_server/tito/templates")
"""Fixed templates that the session server brings itself."""


def cache_dir(settings: Settings) -> Path:
    """The model cache on this host."""
    return (settings.hf_home or Path.home() / ".cache" / "huggingface").expanduser().resolve()


def snapshot(cache: Path, model: str) -> PurePosixPath:
    """Directory of the model's files as the containers see it.

    Raises InfrastructureError where the cache does not have it, or other users cannot read it.
    """
    inside = PurePosixPath("hub") / f"models--{model.replace('/', '--')}"
    fetch = f"HF_HOME={cache} huggingface-cli download {model}"
    try:
        revision = (cache / inside / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        raise InfrastructureError(f"{model} is not in the model cache {cache}", fetch) from None
    directory = inside / "snapshots" / revision
    file = cache / directory / "tokenizer.json"
    if not file.is_file():
        raise InfrastructureError(f"{model} is not complete in {cache}: {directory} has no tokenizer.json", fetch)
    if not file.stat().st_mode & stat.S_IROTH:
        raise InfrastructureError(
            f"{cache} cannot be read by the containers, which run as another user", f"chmod -R o+rX {cache}"
        )
    return PurePosixPath(CACHE) / directory


def chat_template(lease: PlannedLease) -> str | None:
    """The template that the session server renders with, for the engine to render with too; None: the model's own.

    Raises InfrastructureError where it is not installed.
    """
    own = ROOT / _SERVER_TEMPLATES / f"{lease.tito_model}.jinja"
    return own.read_text(encoding="utf-8") if own.is_file() else bundled(lease.tito_model)
