"""`images`: the ground and the images, without running anything on them."""

from __future__ import annotations

from collections.abc import Sequence

from runner.base.settings import load_settings
from runner.base.terms import ExitCode
from runner.cli.stacks import IMAGES, ROOT
from runner.cli.variables import apply
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.report.console import line_consumer


def ensure(variables: Sequence[str], *, with_tests: bool) -> ExitCode:
    """Set up what is missing and print each image's reference, one `NAME=reference` per line."""
    apply(variables)
    settings = load_settings()
    names = [*IMAGES, "scripted-engine"] if with_tests else list(IMAGES)
    ground = prepare(Site.here(ROOT, base_image=settings.base_image), names, line_consumer())
    for name, reference in ground.images.items():
        print(f"{name}={reference}")
    return ExitCode.OK
