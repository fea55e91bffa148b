"""The project's images, present under a tag that says what they were made from.

An image whose tag is there is not built again; one that is not is built through the docker command line, each under a
lock, independent ones at the same time. Tags that nothing has used for a while are removed, by our label only.
Pushing is not a thing here.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.events import Emit, NoteEvent, PhaseEvent
from runner.ground.base import Base
from runner.ground.client import Docker
from runner.ground.engine import MACHINE, Engine
from runner.ground.lock import held
from runner.ground.recipe import RECIPES, Recipe, archive, digest
from runner.ground.shell import Run, run
from runner.ground.site import LABEL, Site

IMAGE_LABEL = f"{LABEL}.image"
KEEP = 3
"""Tags of one image that stay: a branch or two back and forth cost no rebuild."""

SPARED = 6 * 3600.0
"""Seconds after its last use in which a tag stays: a run that is going on may yet make a container from it."""

_BUILD_TIMEOUT = 3600.0
"""Seconds; engine-cpu takes about ten minutes with a slow index."""

_ERROR_LINES = 30
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""Docker's predefined build arguments: passed on where set, in no layer and in no hash."""

_STEP = re.compile(r"Step (?P<done>\d+)/(?P<all>\d+) : (?P<what>.*)|#\d+ \[[^\]]*?(?P<k>\d+)/(?P<n>\d+)\] (?P<do>.*)")
"""A step as the legacy builder and as BuildKit announce it."""

_TELLING = ("FROM", "RUN", "COPY", "ADD")
"""Instructions worth a line; the others take no time."""


@dataclass(frozen=True)
class _Bench:
    """What all builds of one call share."""

    site: Site
    base: Base
    recipes: Mapping[str, Recipe]
    client: Docker
    builder: str | None
    emit: Emit
    run: Run
    cancel: threading.Event


def tags(names: Iterable[str], site: Site, base: Base, recipes: Mapping[str, Recipe] = RECIPES) -> dict[str, str]:
    """The tag that each image has or would get, after that of the image it is built on.

    Raises ConfigurationError for a name that is no image of ours.
    """
    chosen = list(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in recipes]
    if unknown:
        raise ConfigurationError([f"image {name!r} is not one of {', '.join(sorted(recipes))}" for name in unknown])
    found: dict[str, str] = {}
    for name in chosen:
        below = tags([recipes[name].on], site, base, recipes) if recipes[name].on else {}
        arguments = {"BASE_IMAGE": base.key, **({"ENGINE_IMAGE": below[recipes[name].on]} if below else {})}
        found |= {**below, name: recipes[name].tag(digest(recipes[name], site.root, arguments))}
    return found


def ensure(
    names: Iterable[str],
    site: Site,
    base: Base,
    engine: Engine,
    emit: Emit,
    env: Mapping[str, str] | None = None,
    run: Run = run,
    recipes: Mapping[str, Recipe] = RECIPES,
) -> dict[str, str]:
    """Name -> tag for each of `names`, present when this returns. Raises InfrastructureError where a build fails."""
    client = Docker(env or {}, run)
    wanted = tags(names, site, base, recipes)
    missing = {}
    for name, tag in wanted.items():
        if client.image(tag) is None:
            missing[name] = tag
        else:
            client.tag(tag, tag)  # marks it as used now, so that clearing away old tags spares it
            emit(NoteEvent(message=f"image {tag} is up to date"))
    if missing:
        builder = engine.builder if client.buildx_version() else None
        bench = _Bench(site, base, recipes, client, builder, emit, run, threading.Event())
        orders = [(recipes[name], tag) for name, tag in missing.items()]
        for above in (False, True):  # what is built on another of them comes after it
            if wave := [order for order in orders if (order[0].on in missing) is above]:
                _build_all(wave, replace(bench, cancel=threading.Event()))
    for name in missing:
        clear(recipes[name].name, wanted[name], client, emit)
    return wanted


def _build_all(orders: list[tuple[Recipe, str]], bench: _Bench) -> None:
    """Build at the same time; the first failure, or Ctrl-C, ends the others."""
    with ThreadPoolExecutor(max_workers=len(orders), thread_name_prefix="build") as pool:
        running: list[Future[None]] = [pool.submit(_build, recipe, tag, bench) for recipe, tag in orders]
        try:
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
            failed = next((future for future in done if future.exception() is not None), None)
        finally:
            bench.cancel.set()
    if failed is not None:
        failed.result()


def _build(recipe: Recipe, tag: str, bench: _Bench) -> None:
    def told(holder: str) -> None:
        bench.emit(NoteEvent(message=f"process {holder} is building {tag}; waiting for it"))

    lock = bench.site.locks / f"image-{recipe.name}.lock"
    with held(lock, timeout=_BUILD_TIMEOUT, waiting=told):
        if bench.cancel.is_set() or bench.client.image(tag) is not None:
            return
        log = bench.site.logs / f"build-{recipe.name}-{tag.rpartition(':')[2]}.log"
        log.unlink(missing_ok=True)
        started = time.monotonic()
        bench.emit(PhaseEvent(lease=MACHINE, phase="building", detail=f"{tag}, log {log}"))
        _prepare(recipe, log, bench)
        _docker_build(recipe, tag, log, bench)
        if not bench.cancel.is_set():
            seconds = time.monotonic() - started
            bench.emit(PhaseEvent(lease=MACHINE, phase="built", detail=tag, seconds=round(seconds, 1)))


def _prepare(recipe: Recipe, log: Path, bench: _Bench) -> None:
    script = bench.site.root / recipe.prepare
    if not recipe.prepare or not script.is_file():
        return
    bench.emit(PhaseEvent(lease=MACHINE, phase="building", detail=f"{recipe.name}: {recipe.prepare}"))
    bench.run(("bash", str(script)), timeout=_BUILD_TIMEOUT, log=log, cancel=bench.cancel).check(
        f"{recipe.prepare}, which gathers what the image {recipe.name} needs, failed", f"bash {recipe.prepare}"
    )


def _docker_build(recipe: Recipe, tag: str, log: Path, bench: _Bench) -> None:
    context = bench.site.cache / "contexts" / f"{recipe.name}.tar"  # one name: what a killed build left is overwritten
    context.parent.mkdir(parents=True, exist_ok=True)
    try:
        dockerfile = archive(recipe, bench.site.root, context)
        now = tags([recipe.name], bench.site, bench.base, {**bench.recipes, recipe.name: recipe})
        if now[recipe.name] != tag:
            raise InfrastructureError(
                f"files of the image {recipe.name} were changed while it was being prepared", "run this again"
            )
        result = bench.client.build(
            tag,
            context=context,
            dockerfile=dockerfile,
            args={
                "BASE_IMAGE": bench.base.image,
                **({"ENGINE_IMAGE": now[recipe.on]} if recipe.on else {}),
                **{name: "" for name in _PROXIES if os.environ.get(name)},
            },
            labels={IMAGE_LABEL: recipe.name},
            builder=bench.builder,
            timeout=_BUILD_TIMEOUT,
            log=log,
            on_line=_progress(recipe.name, bench.emit),
            cancel=bench.cancel,
        )
    finally:
        context.unlink(missing_ok=True)
    if bench.cancel.is_set() and not result.ok:
        return  # ended by us: what made us end it is the error to show
    result.check(f"the image {recipe.name} could not be built", f"less {log}", lines=_ERROR_LINES)
    if bench.client.image(tag) is None:
        raise InfrastructureError(
            f"the build of {tag} ended well, but the engine does not have the image",
            f"docker buildx ls   # is {bench.builder} a builder of this engine? log: {log}",
        )


def _progress(name: str, emit: Emit) -> Callable[[str], None]:
    """A consumer of build output that tells each step that takes time, once."""
    told: set[tuple[str, str, str]] = set()

    def line(text: str) -> None:
        found = step(text)
        if found is not None and found[2].startswith(_TELLING) and found not in told:
            told.add(found)
            emit(PhaseEvent(lease=MACHINE, phase="building", detail=f"{name} {found[0]}/{found[1]}: {found[2]}"))

    return line


def step(line: str) -> tuple[str, str, str] | None:
    """(k, n, instruction cut to 80 characters) where this line of build output announces a step."""
    match = _STEP.match(line)
    if match is None:
        return None
    k, n, what = match["done"] or match["k"], match["all"] or match["n"], match["what"] or match["do"] or ""
    return k, n, what if len(what) <= 80 else f"{what[:79]}…"


def clear(name: str, current: str, client: Docker, emit: Emit, clock: Callable[[], float] = time.time) -> list[str]:
    """Remove tags of this image beyond the `KEEP` last used, never `current` and none that somebody may be using.

    Used are those of containers, and those that a run asked for less than `SPARED` seconds ago: its runner's container
    is made last, and the next family's later still.

    Stages without a tag (a Dockerfile may label them) are the cache of the next build; all but the newest go as well.
    Returns what was removed.
    """
    images = [image for id in client.image_ids(f"{IMAGE_LABEL}={name}") if (image := client.image(id)) is not None]
    in_use = client.images_of_containers()
    images.sort(key=lambda image: image.used, reverse=True)
    tagged = [image for image in images if image.tags]
    stages = [image for image in images if not image.tags]
    removed = []
    for image in [*tagged[KEEP:], *stages[1:]]:
        if image.id in in_use or current in (image.tags or []):
            continue
        if image.tags and clock() - image.used < SPARED:
            continue
        removed += [name for name in image.tags or [image.id] if client.untag(name).ok]
    if removed:
        emit(NoteEvent(message=f"removed old images: {', '.join(removed)}"))
    return removed
