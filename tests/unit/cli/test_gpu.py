"""ENGINE=gpu is refused before anything starts where a link is missing, and every link that misses is named."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.settings import EngineKind, Settings
from runner.base.terms import ExitCode
from runner.cli import gpu
from runner.cli.stacks import ROOT, compose_variables, gpu_image, image_references, needed_images
from runner.ground.check import Check, Status
from runner.ground.nvidia import Chain, Device
from runner.oracle import template
from runner.stack.devices import Devices
from tests.unit.plan.test_build import plan

REVISION = "0123abcd"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A model cache that holds qwen3."""
    model = tmp_path / "hub" / "models--Qwen--Qwen3-30B-A3B-FP8"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(REVISION)
    files = model / "snapshots" / REVISION
    files.mkdir(parents=True)
    (files / "tokenizer.json").write_text("{}")
    (files / "tokenizer.json").chmod(0o644)
    return tmp_path


def _settings(cache: Path) -> Settings:
    return Settings(family=("qwen3",), engine="gpu", hf_home=cache)


def _device(index: str, free: int = 1000) -> Device:
    return Device(index, f"GPU-{index}", "H", total=1000, free=free)


def _chain(
    monkeypatch: pytest.MonkeyPatch, *checks: Check, usable: int = 2, devices: int = 2, driver: str = "570"
) -> None:
    monkeypatch.setattr(gpu, "diagnose", lambda site: list(checks))
    found = Chain(driver, tuple(_device(str(index)) for index in range(devices)))
    monkeypatch.setattr(gpu.nvidia, "look", lambda run, info: found)
    monkeypatch.setattr(gpu, "free_devices", lambda settings: [str(index) for index in range(usable)])


def test_a_machine_that_does_not_have_as_many_devices_is_wrong_configuration(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    _chain(monkeypatch, usable=1, devices=1)
    with pytest.raises(ConfigurationError, match="qwen3 needs 2, and 1 can be used") as caught:
        gpu.preflight(_settings(cache), plan(family="qwen3", engine="gpu"))
    assert "make doctor ENGINE=gpu" in str(caught.value)


def test_devices_that_others_hold_are_infrastructure_since_they_may_be_free_later(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    _chain(monkeypatch, usable=1)
    with pytest.raises(InfrastructureError, match=r"qwen3 needs 2, and 1 can be used \(0\)\n      -> nvidia-smi"):
        gpu.preflight(_settings(cache), plan(family="qwen3", engine="gpu"))


def test_a_device_that_is_named_and_not_there_is_wrong_configuration(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    named = Settings(family=("qwen3",), engine="gpu", gpus=(0, 9), hf_home=cache)
    _chain(monkeypatch, Check("gpu memory", Status.FAIL, "GPUS names 9; this machine has 0, 1", "nvidia-smi -L"))
    with pytest.raises(ConfigurationError, match="GPUS names 9"):
        gpu.preflight(named, plan(family="qwen3", engine="gpu"))
    _chain(monkeypatch, Check("gpu memory", Status.FAIL, "broken"), devices=10)
    with pytest.raises(InfrastructureError, match="gpu memory: broken"):
        gpu.preflight(named, plan(family="qwen3", engine="gpu"))


def test_a_machine_without_a_gpu_is_wrong_configuration_and_a_broken_driver_is_not(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    failed = Check("nvidia driver", Status.FAIL, "none: nvidia-smi is not installed", "apt-get install driver")
    _chain(monkeypatch, failed, usable=0, devices=0, driver="")
    with pytest.raises(ConfigurationError, match="ENGINE=gpu: nvidia driver: none") as caught:
        gpu.preflight(_settings(cache), plan(family="qwen3", engine="gpu"))
    assert "without ENGINE=gpu the engine runs on the CPU" in str(caught.value)
    assert caught.value.exit_code is ExitCode.USAGE
    lost = Check("nvidia driver", Status.FAIL, "driver 570 without a device: GPU is lost")
    _chain(monkeypatch, lost, usable=0, devices=0)
    with pytest.raises(InfrastructureError, match="GPU is lost"):
        gpu.preflight(_settings(cache), plan(family="qwen3", engine="gpu"))


def test_a_device_counts_as_usable_where_its_memory_is_free_or_another_run_of_ours_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    chain = Chain("570", (_device("0"), _device("1", 10), _device("2", 10)))
    monkeypatch.setattr(gpu.nvidia, "look", lambda run, info: chain)
    taken = Devices(["2"]).take(1)
    assert taken is not None
    assert gpu.free_devices(Settings(engine="gpu")) == ["0", "2"], "1 is held by a stranger"
    taken.release()
    assert gpu.free_devices(Settings(engine="gpu", gpus=(1,))) == ["1"], "what is named is taken"


@pytest.mark.parametrize(("family", "fixed"), [("qwen3", True), ("qwen36", True), ("glm47", False), ("inkling", True)])
def test_the_engine_renders_with_the_template_of_the_session_server(
    monkeypatch: pytest.MonkeyPatch, family: str, fixed: bool
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "images" / "session-server"))
    families = importlib.import_module("session_server.tito.families")
    loading = importlib.import_module("session_server.tito.loading")
    (lease,) = plan(family=family, engine="gpu").leases
    row = families.find(lease.tito_model)
    assert (row.template is not None) is fixed
    if fixed:
        read = loading._own_template if row.own_template else loading.template_text
        assert gpu.chat_template(lease) == read(row.template)
    else:
        assert gpu.chat_template(lease) is None


def test_a_template_that_is_not_installed_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    _chain(monkeypatch, Check("nvidia driver", Status.OK, "570"))
    monkeypatch.setattr(template, "PACKAGE", "a_package_that_is_not_here")
    with pytest.raises(InfrastructureError, match=r"qwen3_fixed\.jinja of qwen3 is not installed\n      -> make venv"):
        gpu.preflight(_settings(cache), plan(family="qwen3", engine="gpu"))


def test_up_holds_the_devices_of_its_lease_and_does_not_wait_for_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    settings = Settings(engine="gpu", gpus=(3, 4, 5))
    (lease,) = plan(family="qwen3", engine="gpu").leases
    with gpu.devices_for(settings, lease) as devices:
        assert devices == ("3", "4")
        assert Devices(["3"]).locked("3")
        with (
            pytest.raises(InfrastructureError, match=r"qwen3 needs 2 GPUs, and another run holds them, out of 3, 4, 5"),
            gpu.devices_for(settings, lease),
        ):
            pass
    assert not Devices(["3"]).locked("3")
    with gpu.devices_for(settings, plan(family="qwen3").leases[0]) as devices:
        assert devices == ()


def test_every_failed_link_is_named_with_its_line_and_warnings_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _chain(
        monkeypatch,
        Check("nvidia driver", Status.FAIL, "none: nvidia-smi is not installed", "apt-get install driver"),
        Check("nvidia toolkit", Status.FAIL, "not installed", "apt-get install toolkit"),
        Check("memory", Status.WARN, "little", "free some"),
    )
    with pytest.raises(ConfigurationError) as caught:
        gpu.preflight(_settings(tmp_path), plan(family="qwen3", engine="gpu"))
    text = str(caught.value)
    assert "nvidia driver: none: nvidia-smi is not installed" in text
    assert "-> apt-get install driver" in text
    assert "nvidia toolkit: not installed" in text
    assert "weights of qwen3: Qwen/Qwen3-30B-A3B-FP8 is not in the model cache" in text
    assert "huggingface-cli download Qwen/Qwen3-30B-A3B-FP8" in text
    assert "little" not in text
    assert "nothing was started" in text


def test_the_plan_gets_the_place_of_the_tokenizer_as_containers_see_it(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    _chain(monkeypatch, Check("nvidia driver", Status.OK, "570"))
    found = gpu.preflight(_settings(cache), plan(family="qwen3", engine="gpu"))
    wanted = f"/hf/hub/models--Qwen--Qwen3-30B-A3B-FP8/snapshots/{REVISION}"
    assert found.leases[0].tokenizer == wanted
    assert found.leases[0].model == "Qwen/Qwen3-30B-A3B-FP8"
    assert gpu.preflight(_settings(cache), found) == found, "a plan that is repeated keeps its place"
    moved = cache / "hub" / "models--Qwen--Qwen3-30B-A3B-FP8"
    (moved / "snapshots" / REVISION).rename(moved / "snapshots" / "newer")
    (moved / "refs" / "main").write_text("newer")
    with pytest.raises(ConfigurationError, match="fetch that revision"):
        gpu.preflight(_settings(cache), found)


def test_a_download_that_broke_off_and_files_that_others_cannot_read_are_told_apart(cache: Path) -> None:
    file = next(cache.rglob("tokenizer.json"))
    file.chmod(0o600)
    with pytest.raises(InfrastructureError, match="chmod -R o"):
        gpu.snapshot(cache, "Qwen/Qwen3-30B-A3B-FP8")
    file.unlink()
    with pytest.raises(InfrastructureError, match="is not complete"):
        gpu.snapshot(cache, "Qwen/Qwen3-30B-A3B-FP8")


def test_the_engine_is_the_official_image_at_the_version_that_the_cpu_engine_pins(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    name, _, tag = gpu_image().partition(":v")
    pinned = (Path(__file__).parents[3] / "images/engine-cpu/requirements-alone.in").read_text()
    assert name == "lmsysorg/sglang"
    assert f"sglang=={tag}\n" in pinned
    assert "engine-cpu" not in needed_images(settings)
    assert image_references(settings, {"session-server": "s", "runner": "r"})["engine"] == gpu_image()
    own = Settings(engine="gpu", engine_image="mine:1")
    assert image_references(own, {"session-server": "s", "runner": "r"})["engine"] == "mine:1"


def test_a_scripted_engine_has_an_image_of_its_own_and_is_no_default() -> None:
    settings = Settings(engine=EngineKind.SCRIPTED)
    assert needed_images(settings) == ["scripted-engine", "session-server", "runner"]
    built = {name: f"{name}:1" for name in (*needed_images(settings), "engine-cpu")}
    assert image_references(settings, built)["engine"] == "scripted-engine:1"
    assert needed_images(Settings())[0] == "engine-cpu"
    assert image_references(Settings(), built)["engine"] == "engine-cpu:1"


def test_limits_of_the_small_engine_are_lifted_for_the_real_one_only() -> None:
    images = {"engine": "e", "session": "s", "runner": "r"}
    for engine, lifted in (("gpu", True), ("cpu", False)):
        made = plan(family="qwen3", engine=engine)
        variables = compose_variables(made, made.leases[0], images, lock=Path("/lock"), keep=False)
        assert ("TITO_ENGINE_MEMORY" in variables) is lifted
        assert ("TITO_ENGINE_TMPFS" in variables) is lifted
