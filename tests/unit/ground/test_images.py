"""Images under the tag of their content: built when missing, together, once, and cleared away when old."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.ground import images
from runner.ground.base import Base, Origin
from runner.ground.client import Docker
from runner.ground.engine import Engine
from runner.ground.recipe import Recipe
from runner.ground.shell import Result
from runner.ground.site import Site
from tests.unit.ground.conftest import FakeRun, Log, failed, image

BASE = Base("python:3.11-slim-bookworm", Origin.PRESENT, "python:3.11-slim-bookworm")
ENGINE = Engine("20.10.24", "1.41", "28.2.2", "default", "unix:///var/run/docker.sock")
NOT_HERE = failed("Error: No such image")


class Store:
    """The engine's images, fed by builds."""

    def __init__(self, fake: FakeRun) -> None:
        self.tags: set[str] = set()
        self.lock = threading.Lock()
        fake.on(
            "docker image inspect",
            lambda argv, env: image("sha256:x", [argv[-1]]) if argv[-1] in self.tags else NOT_HERE,
        )
        fake.on("docker build", self.build)
        fake.on("docker tag", "")
        fake.on("docker image ls", "")
        fake.on("docker ps", "")

    def build(self, argv: tuple[str, ...], env: object) -> Result | str:
        with self.lock:
            self.tags.add(argv[argv.index("--tag") + 1])
        return "Step 1/2 : FROM x\n ---> 1\nStep 2/2 : RUN make\n"


@pytest.fixture
def store(fake: FakeRun) -> Store:
    """No image is here; every build works."""
    return Store(fake)


@pytest.fixture
def recipes(site: Site) -> dict[str, Recipe]:
    """Two images of one file each."""
    made = {}
    for name in ("one", "two"):
        folder = site.root / name
        folder.mkdir()
        (folder / "Dockerfile").write_text(f"FROM {name}")
        made[name] = Recipe(name, context=name, dockerfile=f"{name}/Dockerfile", counts=(name,))
    return made


def test_missing_ones_are_built_with_base_label_and_log(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    tags = images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes=recipes)
    call = fake.called("docker build")[0]
    assert tags == {"one": images.tags(["one"], site, BASE, recipes)["one"]}
    assert tags["one"].startswith("tito-e2e/one:")
    assert "--force-rm" in call
    assert call[-1] == "-"
    assert f"BASE_IMAGE={BASE.image}" in call
    assert "io.github.tito-e2e.image=one" in call
    assert fake.envs[fake.calls.index(call)]["DOCKER_BUILDKIT"] == "0"
    assert "building: one 2/2: RUN make" in log.texts
    assert log.texts[-1] == f"built: {tags['one']}"
    assert not list(site.cache.rglob("*.tar"))


@pytest.fixture
def above(recipes: dict[str, Recipe]) -> dict[str, Recipe]:
    """The recipes with `two` built on `one`."""
    return {**recipes, "two": replace(recipes["two"], on="one")}


def test_what_is_built_on_another_image_comes_after_it_and_gets_its_tag(
    fake: FakeRun, store: Store, site: Site, log: Log, above: dict[str, Recipe]
) -> None:
    tags = images.ensure(["two"], site, BASE, ENGINE, log.append, run=fake, recipes=above)
    first, second = fake.called("docker build")
    assert first[first.index("--tag") + 1] == tags["one"]
    assert second[second.index("--tag") + 1] == tags["two"]
    assert f"ENGINE_IMAGE={tags['one']}" in second
    assert not any(part.startswith("ENGINE_IMAGE=") for part in first)


def test_an_image_is_another_one_when_what_it_is_built_on_changes(site: Site, above: dict[str, Recipe]) -> None:
    before = images.tags(["two"], site, BASE, above)
    (site.root / "one" / "Dockerfile").write_text("FROM other")
    after = images.tags(["two"], site, BASE, above)
    assert (before["one"] != after["one"], before["two"] != after["two"]) == (True, True)


def test_one_that_is_here_is_one_line_and_no_build(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    tag = images.tags(["one"], site, BASE, recipes)["one"]
    store.tags.add(tag)
    images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes=recipes)
    assert log.texts == [f"image {tag} is up to date"]
    assert not fake.called("docker build")
    assert fake.called("docker tag") == [("docker", "tag", tag, tag)]


def test_with_buildx_its_builder_of_this_engine_is_used(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    fake.on("docker buildx version", "github.com/docker/buildx v0.20.0")
    fake.on("docker buildx build", store.build)
    images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes=recipes)
    call = fake.called("docker buildx build")[0]
    assert call[3:8] == ("--builder", "default", "--load", "--progress", "plain")
    assert "DOCKER_BUILDKIT" not in fake.envs[fake.calls.index(call)]


def test_independent_images_are_built_at_the_same_time(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    both = threading.Barrier(2, timeout=20)

    def build(argv: tuple[str, ...], env: object) -> Result | str:
        both.wait()
        return store.build(argv, env)

    fake.on("docker build", build)
    assert len(images.ensure(["one", "two"], site, BASE, ENGINE, log.append, run=fake, recipes=recipes)) == 2


def test_a_failed_build_shows_its_last_thirty_lines_and_the_log(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    output = "\n".join(f"line {i}" for i in range(50))
    fake.on("docker build", Result(("docker", "build"), 1, output))
    with pytest.raises(InfrastructureError) as caught:
        images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes=recipes)
    text = str(caught.value)
    assert "the image one could not be built" in text
    assert "line 19" not in text
    assert "line 20" in text
    assert "build-one-" in caught.value.hint


def test_the_first_failure_ends_the_other_builds_and_is_the_error_shown(
    site: Site, log: Log, recipes: dict[str, Recipe], fake: FakeRun, store: Store
) -> None:
    started = threading.Event()

    def run(argv: object, **options: object) -> Result:
        assert isinstance(argv, tuple | list)
        if tuple(argv[:2]) != ("docker", "build"):
            return fake(argv, **options)  # type: ignore[arg-type]
        if any("tito-e2e/one" in word for word in argv):
            assert started.wait(20)
            return failed("disk is full")
        started.set()
        cancel = options["cancel"]
        assert isinstance(cancel, threading.Event)
        assert cancel.wait(20), "the other build was not ended"
        return Result(tuple(argv), -15)

    with pytest.raises(InfrastructureError, match="disk is full"):
        images.ensure(["two", "one"], site, BASE, ENGINE, log.append, run=run, recipes=recipes)  # type: ignore[arg-type]


def test_ctrl_c_ends_the_builds_before_it_goes_on(
    site: Site, log: Log, recipes: dict[str, Recipe], fake: FakeRun, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, ended = threading.Event(), threading.Event()

    def run(argv: object, **options: object) -> Result:
        assert isinstance(argv, tuple | list)
        if tuple(argv[:2]) != ("docker", "build"):
            return fake(argv, **options)  # type: ignore[arg-type]
        started.set()
        cancel = options["cancel"]
        assert isinstance(cancel, threading.Event)
        assert cancel.wait(20), "the build was not ended"
        ended.set()
        return Result(tuple(argv), -15)

    def interrupted(*futures: object, **options: object) -> None:
        assert started.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(images, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        images.ensure(["one"], site, BASE, ENGINE, log.append, run=run, recipes=recipes)  # type: ignore[arg-type]
    assert ended.is_set()
    assert not [text for text in log.texts if text.startswith("built")]


def test_two_callers_build_an_image_once(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    building, go_on = threading.Event(), threading.Event()

    def build(argv: tuple[str, ...], env: object) -> Result | str:
        building.set()
        assert go_on.wait(20)
        return store.build(argv, env)

    def emit(event: object) -> None:
        log.append(event)  # type: ignore[arg-type]
        if "waiting for it" in log.texts[-1]:
            go_on.set()

    def call() -> None:
        images.ensure(["one"], site, BASE, ENGINE, emit, run=fake, recipes=recipes)

    fake.on("docker build", build)
    first = threading.Thread(target=call)
    first.start()
    assert building.wait(20)
    call()
    first.join()
    assert len(fake.called("docker build")) == 1


def test_files_that_change_while_it_is_prepared_are_not_built_under_the_old_tag(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    script = site.root / "fetch.sh"
    script.write_text("")
    recipe = Recipe("one", context="one", dockerfile="one/Dockerfile", counts=("one",), prepare="fetch.sh")

    def fetch(argv: tuple[str, ...], env: object) -> str:
        (site.root / "one/Dockerfile").write_text("FROM other")
        return ""

    fake.on("bash", fetch)
    with pytest.raises(InfrastructureError, match="were changed while it was being prepared"):
        images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes={"one": recipe})
    assert not fake.called("docker build")


def test_a_gathering_script_that_fails_is_named(fake: FakeRun, store: Store, site: Site, log: Log) -> None:
    (site.root / "one").mkdir()
    (site.root / "one/Dockerfile").write_text("FROM x")
    (site.root / "fetch.sh").write_text("")
    recipe = Recipe("one", context="one", dockerfile="one/Dockerfile", counts=("one",), prepare="fetch.sh")
    fake.on("bash", failed("no space left"))
    with pytest.raises(InfrastructureError, match=r"fetch\.sh, which gathers .*\n.*no space left"):
        images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes={"one": recipe})


def test_a_build_that_leaves_no_image_is_not_taken_for_good(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe]
) -> None:
    fake.on("docker build", "")
    with pytest.raises(InfrastructureError, match="the engine does not have the image"):
        images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes=recipes)


def test_names_that_are_no_images_are_all_named_at_once(site: Site, recipes: dict[str, Recipe]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        images.tags(["one", "three", "four"], site, BASE, recipes)
    assert len(caught.value.problems) == 2


def test_the_base_s_key_is_part_of_the_tag(site: Site, recipes: dict[str, Recipe]) -> None:
    other = Base(BASE.image, Origin.PRESENT, "another")
    assert images.tags(["one"], site, BASE, recipes) != images.tags(["one"], site, other, recipes)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Step 3/12 : RUN pip install x", ("3", "12", "RUN pip install x")),
        ("#7 [2/5] COPY a b", ("2", "5", "COPY a b")),
        ("#9 [packages 4/6] RUN uv", ("4", "6", "RUN uv")),
        (" ---> Running in 12ab", None),
        ("#7 sha256:abc 1MB / 2MB", None),
        ("Step 1/1 : RUN " + "x" * 100, ("1", "1", "RUN " + "x" * 75 + "…")),
    ],
)
def test_steps_are_read_from_both_builders(line: str, expected: tuple[str, str, str] | None) -> None:
    assert images.step(line) == expected


def test_proxies_of_the_host_are_passed_by_name_and_never_by_value(
    fake: FakeRun, store: Store, site: Site, log: Log, recipes: dict[str, Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy")
    images.ensure(["one"], site, BASE, ENGINE, log.append, run=fake, recipes=recipes)
    call = fake.called("docker build")[0]
    assert call[call.index("HTTPS_PROXY") - 1] == "--build-arg"
    assert "secret" not in " ".join(call)


class Old:
    """Images of one label: id -> (tags, day of January on which it was last tagged)."""

    def __init__(self, fake: FakeRun, have: dict[str, tuple[list[str], int]], used: str = "") -> None:
        fake.on("docker image ls", "\n".join(have))
        for id, (names, day) in have.items():
            fake.on(f"docker image inspect {id}", image(id, names, tagged=f"2026-01-{day:02}T00:00:00Z"))
        fake.on("docker ps", "container" if used else "")
        fake.on("docker inspect", used)
        fake.on("docker rmi", "")


def test_only_the_three_tags_used_last_stay(fake: FakeRun, log: Log) -> None:
    Old(fake, {f"sha256:{day}": ([f"tito-e2e/one:{day}"], day) for day in (1, 5, 3, 2, 4)})
    assert images.clear("one", "tito-e2e/one:5", Docker(run=fake), log.append) == ["tito-e2e/one:2", "tito-e2e/one:1"]
    assert fake.called("docker image ls")[0][-1] == "label=io.github.tito-e2e.image=one"
    assert log.texts == ["removed old images: tito-e2e/one:2, tito-e2e/one:1"]


def test_the_current_one_and_those_of_containers_stay_however_old(fake: FakeRun, log: Log) -> None:
    have = {f"sha256:{day}": ([f"tito-e2e/one:{day}"], day) for day in range(1, 7)}
    Old(fake, have, used="sha256:2")
    assert images.clear("one", "tito-e2e/one:1", Docker(run=fake), log.append) == ["tito-e2e/one:3"]


@pytest.mark.parametrize(("hours", "gone"), [(1, [1]), (7, [2, 1])])
def test_one_that_a_run_asked_for_lately_stays_for_the_containers_that_it_is_still_to_make(
    fake: FakeRun, log: Log, hours: int, gone: list[int]
) -> None:
    Old(fake, {f"sha256:{day}": ([f"tito-e2e/one:{day}"], day) for day in range(1, 6)})
    now = datetime(2026, 1, 2, hours, tzinfo=UTC).timestamp()
    removed = images.clear("one", "tito-e2e/one:5", Docker(run=fake), log.append, clock=lambda: now)
    assert removed == [f"tito-e2e/one:{day}" for day in gone]


def test_of_stages_without_a_tag_the_newest_stays(fake: FakeRun, log: Log) -> None:
    Old(fake, {"sha256:a": ([], 1), "sha256:b": ([], 2), "sha256:c": (["tito-e2e/one:c"], 3)})
    assert images.clear("one", "tito-e2e/one:c", Docker(run=fake), log.append) == ["sha256:a"]


def test_one_that_the_engine_does_not_give_up_is_not_said_to_be_removed(fake: FakeRun, log: Log) -> None:
    Old(fake, {f"sha256:{day}": ([f"tito-e2e/one:{day}"], day) for day in range(1, 5)})
    fake.on("docker rmi", failed("conflict: unable to remove repository reference"))
    assert images.clear("one", "tito-e2e/one:4", Docker(run=fake), log.append) == []
    assert log.texts == []


def test_an_image_that_was_never_tagged_here_counts_by_its_creation(fake: FakeRun) -> None:
    facts = json.dumps(
        [{"Id": "x", "Created": "2026-01-02T00:00:00Z", "Metadata": {"LastTagTime": "0001-01-01T00:00:00Z"}}]
    )
    fake.on("docker image inspect x", facts)
    found = Docker(run=fake).image("x")
    assert found is not None
    assert found.used == 1767312000.0


def test_log_files_lie_under_the_cache(site: Site) -> None:
    assert site.logs == Path(site.root) / ".cache/logs"
