"""`images`: the ground and the images, without running anything on them."""

from __future__ import annotations

from collections.abc import Sequence

from runner.base.reading import load_settings
from runner.base.terms import ExitCode
from runner.cli.stacks import IMAGES, ROOT
from runner.cli.variables import apply
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.report.console import line_consumer


def ensure(variables: Sequence[str], *, with_tests: bool, only: Sequence[str] = ()) -> ExitCode:
    """Set up what is missing and print each image's reference, one `NAME=reference` per line.

    `only` names images instead of those of a run; the images that they are built on are made and not printed.
    """
    apply(variables)
    settings = load_settings()
    names = list(only) or ([*IMAGES, "scripted-engine"] if with_tests else list(IMAGES))
    ground = prepare(Site.here(ROOT, base_image=settings.base_image), names, line_consumer())
    for name in names:
        print(f"{name}={ground.images[name]}")
    return ExitCode.OK
