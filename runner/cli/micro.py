"""`micro-model`: train a family's CPU model again, in the engine image, where torch is.

Files go in and out through Docker's API, so that this works with a remote engine too. The result replaces the
committed model only when the training has ended well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import docker

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.events import NoteEvent
from runner.base.reading import load_settings
from runner.base.terms import ExitCode
from runner.cli.stacks import ROOT
from runner.cli.variables import apply
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.report.console import line_consumer
from runner.stack.collect import copy_out
from runner.stack.redact import Redactor

_OUT = PurePosixPath("/tmp/out")  # noqa: S108 - inside a container that only this command uses


def train(variables: Sequence[str]) -> ExitCode:
    """Train FAMILY's micro model and write it to images/engine-cpu/models/<family>."""
    apply(variables)
    settings = load_settings()
    if len(settings.family) != 1:
        raise ConfigurationError([f"FAMILY={','.join(settings.family)!r}: one family is trained at a time"])
    family = settings.family[0]
    emit = line_consumer()
    ground = prepare(Site.here(ROOT, base_image=settings.base_image), ["engine-cpu"], emit)
    client = docker.from_env()
    container = client.containers.create(
        ground.images["engine-cpu"],
        entrypoint=["python", "-m", "micro"],
        command=["train", "--family", family, "--out", str(_OUT / family)],
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        environment={"OMP_NUM_THREADS": "2"},
    )
    try:
        container.start()
        for chunk in container.logs(stream=True, follow=True):
            print(chunk.decode("utf-8", "replace"), end="", flush=True)
        code = int(container.wait(timeout=60)["StatusCode"])
        if code != 0:
            raise InfrastructureError(f"the training of {family} ended with {code}; the committed model is unchanged")
        target = ROOT / "images" / "engine-cpu" / "models" / family
        written = copy_out(container, _OUT / family, target, Redactor([]))
        emit(NoteEvent(message=f"{len(written)} files written to {target.relative_to(ROOT)}"))
    finally:
        container.remove(force=True)
        client.close()
    return ExitCode.OK
