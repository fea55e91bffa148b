"""Which base image is taken, in which order, and what happens where none can be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.ground import base
from runner.ground.base import BASE_LABEL, OFFICIAL, OFFLINE, Origin
from runner.ground.site import Site
from tests.unit.ground.conftest import FakeRun, Log, failed, image

NOT_HERE = failed("Error: No such image")
NO_REGISTRY = failed("Error response from daemon: lookup registry: no such host")


@pytest.fixture
def site(site: Site) -> Site:
    """A checkout that has the script."""
    script = site.root / base.SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text("echo made\n")
    return site


@pytest.fixture(autouse=True)
def _machine(fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, mmdebstrap is here; no image is here; no registry can be reached."""
    monkeypatch.setattr(base.os, "geteuid", lambda: 0)
    monkeypatch.setattr(base.shutil, "which", lambda name: f"/usr/bin/{name}")
    fake.on("docker image inspect", NOT_HERE)
    fake.on("docker pull", NO_REGISTRY)


def here(fake: FakeRun, reference: str, **labels: str) -> None:
    fake.on(f"docker image inspect {reference}", image("sha256:1", [reference], labels))


def test_base_image_wins_over_everything(fake: FakeRun, site: Site, log: Log) -> None:
    here(fake, OFFICIAL)
    here(fake, "mine:1")
    found = base.ensure(replace(site, base_image="mine:1"), log.append, run=fake)
    assert (found.image, found.origin, found.key) == ("mine:1", Origin.CHOSEN, "mine:1")
    assert not fake.called("docker pull")


def test_base_image_is_pulled_where_it_is_not_here(fake: FakeRun, site: Site, log: Log) -> None:
    fake.on("docker pull mine:1", "")
    assert base.ensure(replace(site, base_image="mine:1"), log.append, run=fake).origin is Origin.CHOSEN


def test_a_base_image_that_cannot_be_had_is_an_error_and_nothing_replaces_it(
    fake: FakeRun, site: Site, log: Log
) -> None:
    here(fake, OFFICIAL)
    with pytest.raises(InfrastructureError, match="BASE_IMAGE=mine:1 is neither here nor can it be pulled") as caught:
        base.ensure(replace(site, base_image="mine:1"), log.append, run=fake)
    assert "unset BASE_IMAGE" in caught.value.hint


def test_the_official_image_is_used_where_it_is_here(fake: FakeRun, site: Site, log: Log) -> None:
    here(fake, OFFICIAL)
    here(fake, OFFLINE, **{BASE_LABEL: base.offline_key(site)})
    assert base.ensure(site, log.append, run=fake).origin is Origin.PRESENT
    assert log.texts == [f"base image {OFFICIAL} (present)"]


def test_an_offline_base_of_the_same_script_goes_before_a_pull(fake: FakeRun, site: Site, log: Log) -> None:
    here(fake, OFFLINE, **{BASE_LABEL: base.offline_key(site)})
    found = base.ensure(site, log.append, run=fake)
    assert (found.image, found.origin) == (OFFLINE, Origin.OFFLINE_PRESENT)
    assert found.key == f"{OFFLINE}@{base.offline_key(site)}"
    assert not fake.called("docker pull")


def test_else_the_official_image_is_pulled_and_said(fake: FakeRun, site: Site, log: Log) -> None:
    fake.on(f"docker pull {OFFICIAL}", "")
    assert base.ensure(site, log.append, run=fake).origin is Origin.PULLED
    assert log.texts[0] == f"preparing: pulling {OFFICIAL} (at most 300 s)"


def test_without_a_registry_an_offline_base_is_made(fake: FakeRun, site: Site, log: Log) -> None:
    fake.on("bash", "")
    found = base.ensure(site, log.append, run=fake)
    assert (found.image, found.origin) == (OFFLINE, Origin.OFFLINE_MADE)
    label = f"{BASE_LABEL}={base.offline_key(site)}"
    assert fake.called("bash") == [("bash", str(site.root / base.SCRIPT), "bookworm", OFFLINE, label)]
    assert any("no such host" in text for text in log.texts)


def test_one_made_by_another_version_of_the_script_is_made_again(fake: FakeRun, site: Site, log: Log) -> None:
    here(fake, OFFLINE, **{BASE_LABEL: "0123456789ab"})
    fake.on("bash", "")
    assert base.ensure(site, log.append, run=fake).origin is Origin.OFFLINE_MADE


def test_mmdebstrap_is_installed_where_it_is_missing(
    fake: FakeRun, site: Site, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base.shutil, "which", _without("mmdebstrap"))
    fake.on("apt-get", "")
    fake.on("bash", "")
    base.ensure(site, log.append, run=fake)
    assert fake.called("apt-get")[-1][-1] == "mmdebstrap"


@pytest.mark.parametrize(
    ("uid", "missing", "message"),
    [(1000, "nothing", "only root can make an offline base"), (0, "apt-get", "needs mmdebstrap, which is not here")],
)
def test_where_none_can_be_made_the_line_to_pull_is_shown(
    fake: FakeRun, site: Site, log: Log, monkeypatch: pytest.MonkeyPatch, uid: int, missing: str, message: str
) -> None:
    monkeypatch.setattr(base.os, "geteuid", lambda: uid)
    monkeypatch.setattr(base.shutil, "which", _without(missing, "mmdebstrap"))
    with pytest.raises(InfrastructureError) as caught:
        base.ensure(site, log.append, run=fake)
    assert message in caught.value.message
    assert "no such host" in caught.value.message
    assert f"docker pull {OFFICIAL}" in caught.value.hint
    assert not fake.called("bash")


def test_a_script_that_fails_is_shown_with_its_last_lines(fake: FakeRun, site: Site, log: Log) -> None:
    fake.on("bash", failed("E: mmdebstrap failed to run"))
    with pytest.raises(InfrastructureError, match="mmdebstrap failed to run"):
        base.ensure(site, log.append, run=fake)


def test_the_key_follows_the_script_and_the_machine_s_certificates(site: Site, tmp_path: Path) -> None:
    certificates = tmp_path / "ca"
    plain = base.offline_key(site, certificates)
    certificates.mkdir()
    assert base.offline_key(site, certificates) == plain
    (certificates / "extra.crt").write_text("certificate")
    with_one = base.offline_key(site, certificates)
    (site.root / base.SCRIPT).write_text("echo other\n")
    assert len({plain, with_one, base.offline_key(site, certificates)}) == 3


def _without(*names: str) -> Callable[[str], str | None]:
    return lambda name: None if name in names else f"/usr/bin/{name}"
