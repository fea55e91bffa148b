"""Everything that must be on the machine before a stack can start, in order, said as it happens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.base.events import Emit
from runner.ground import base, compose, daemon, images
from runner.ground.base import Base
from runner.ground.compose import Compose
from runner.ground.engine import Engine
from runner.ground.shell import Run, run
from runner.ground.site import Site


@dataclass(frozen=True)
class Ground:
    """What a stack stands on. `env`: additions to the environment of every docker command and SDK of this run."""

    engine: Engine
    compose: Compose
    base: Base
    images: dict[str, str]
    env: dict[str, str]


def prepare(site: Site, names: Iterable[str], emit: Emit, run: Run = run) -> Ground:
    """Find or set up engine, Compose, base image and the images `names`. Raises InfrastructureError.

    Call it before anything else of this process talks to Docker, and put `env` into `os.environ` then: the SDK and
    testcontainers read it from there.
    """
    engine = daemon.ensure(emit, run=run)
    plugin = compose.ensure(site, emit, engine.env, run)
    env = {**engine.env, **plugin.env}
    foundation = base.ensure(site, emit, env, run)
    tags = images.ensure(names, site, foundation, engine, emit, env, run)
    return Ground(engine, plugin, foundation, tags, env)
