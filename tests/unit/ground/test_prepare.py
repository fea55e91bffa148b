"""The whole ground in order, and the environment that comes out of it."""

from __future__ import annotations

import pytest

from runner.ground import base, compose, daemon, images, prepare
from runner.ground.base import Base, Origin
from runner.ground.compose import Compose
from runner.ground.engine import Engine
from runner.ground.site import Site
from tests.unit.ground.conftest import FakeRun, Log


def test_each_step_gets_what_the_earlier_ones_found(
    fake: FakeRun, site: Site, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine("20.10", "1.41", "28", "rootless", "unix:///x", {"DOCKER_HOST": "unix:///x"})
    plugin = Compose("2.40.3", private=True, env={"DOCKER_CONFIG": "/c"})
    foundation = Base("python", Origin.PRESENT, "python")
    seen: list[object] = []

    def note(result: object) -> object:
        def step(*arguments: object, **options: object) -> object:
            seen.append([argument for argument in arguments if isinstance(argument, dict)])
            return result

        return step

    monkeypatch.setattr(daemon, "ensure", note(engine))
    monkeypatch.setattr(compose, "ensure", note(plugin))
    monkeypatch.setattr(base, "ensure", note(foundation))
    monkeypatch.setattr(images, "ensure", note({"runner": "tito-e2e/runner:1"}))
    ground = prepare.prepare(site, ["runner"], log.append, fake)
    both = {"DOCKER_HOST": "unix:///x", "DOCKER_CONFIG": "/c"}
    assert seen == [[], [engine.env], [both], [both]]
    assert ground.env == both
    assert ground.images == {"runner": "tito-e2e/runner:1"}


def test_a_site_reads_its_environment_once(tmp_path: object) -> None:
    from pathlib import Path

    site = Site.here(Path("/repo"), {"HOME": "/home/me", "BASE_IMAGE": "mine:1"})
    assert (site.state, site.base_image) == (Path("/home/me/.local/state/tito-e2e"), "mine:1")
    site = Site.here(Path("/repo"), {"HOME": "/home/me", "XDG_STATE_HOME": "/s", "BASE_IMAGE": "mine:1"}, base_image="")
    assert (site.state, site.base_image) == (Path("/s/tito-e2e"), "")
