"""The contracts that need an image: SGLang's kit, live, and our conversion against SGLang's.

Each is one function from a bench - what stands on this machine, and where results go - to a result, so that the
commands of one engine image and the comparison of two share it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runner.base.events import Emit, PhaseEvent
from runner.base.reading import load_settings
from runner.base.settings import Settings
from runner.base.terms import ExitCode
from runner.cli.place import writable
from runner.cli.stacks import ROOT
from runner.contract.conversion import gate, recording
from runner.contract.conversion.recording import Recording, Side
from runner.contract.kit.live import IMAGE as KIT_IMAGE
from runner.contract.kit.live import KitOrder, check_live, tag
from runner.contract.result import ContractResult, write_result
from runner.contract.text import result_lines
from runner.ground import images
from runner.ground.client import Docker
from runner.ground.pin import pinned_sglang
from runner.ground.prepare import Ground, prepare
from runner.ground.site import Site
from runner.plan.build import new_run_id
from runner.report.console import line_consumer


@dataclass(frozen=True)
class Bench:
    """What a gate works with. `directory` gets its artifacts."""

    settings: Settings
    site: Site
    ground: Ground
    run_id: str
    directory: Path
    emit: Emit

    @property
    def engine(self) -> str:
        """The engine image that is checked."""
        return self.settings.engine_image or self.ground.images["engine-cpu"]

    @property
    def session(self) -> str:
        """The session-server image that is checked."""
        return self.settings.session_image or self.ground.images["session-server"]

    def phase(self, lease: str, phase: str, detail: str = "") -> None:
        """Say what is being done."""
        self.emit(PhaseEvent(lease=lease, phase=phase, detail=detail))


def bench(settings: Settings, names: Sequence[str], suffix: str) -> Bench:
    """Set up the ground with those of `names` that the settings do not replace; make the directory of the results."""
    replaced = {"engine-cpu": settings.engine_image, "session-server": settings.session_image}
    writable("ARTIFACTS", settings.artifacts)
    emit = line_consumer()
    site = Site.here(ROOT, base_image=settings.base_image)
    ground = prepare(site, [name for name in names if not replaced.get(name)], emit)
    run_id = new_run_id(datetime.now(UTC))
    directory = settings.artifacts.resolve() / f"{run_id}-{suffix}"
    directory.mkdir(parents=True)
    return Bench(settings, site, ground, run_id, directory, emit)


def run_kit(on: Bench, engine: str, sglang: str, directory: Path, *, timeout: float) -> ContractResult:
    """The kit against `engine`, which is meant to have this version of SGLang; artifacts in `directory`."""
    on.phase("contract", "kit", f"SGLang's own Anthropic tests, live against {engine}")
    directory.mkdir(parents=True, exist_ok=True)
    order = KitOrder(
        engine_image=engine,
        base_image=on.ground.base.image,
        directory=directory,
        run_id=on.run_id,
        sglang=sglang,
        timeout=timeout,
        env=on.ground.env,
    )
    result = check_live(order)
    images.clear(KIT_IMAGE, tag(order), Docker(on.ground.env), on.emit)
    write_result(result, directory)
    return result


def record_side(on: Bench, side: Side, image: str, path: Path) -> Recording:
    """What `image` makes of the corpus, written to `path` as well."""
    on.phase("contract", "conversion", f"the corpus is converted by {image}")
    path.parent.mkdir(parents=True, exist_ok=True)
    made = recording.record(side, image, on.run_id, env=on.ground.env)
    recording.write(made, path)
    return made


def check_kit(*, timeout: float) -> ExitCode:
    """Build what is missing, run the kit and write its artifacts. 1 where it failed."""
    on = bench(load_settings(), ["engine-cpu"], "contract")
    result = run_kit(on, on.engine, pinned_sglang(ROOT), on.directory, timeout=timeout)
    print("\n".join(result_lines(result, on.directory)))
    return result.exit_code


def check_conversion(*, against: Path | None) -> ExitCode:
    """Record both sides and judge. 1 where a difference is not listed, or something changed since `against`."""
    settings = load_settings()
    older = None if against is None else recording.read(against)
    on = bench(settings, ["engine-cpu", "session-server"], "contract")
    begun = time.monotonic()
    ours = record_side(on, Side.OURS, on.session, on.directory / "ours.json")
    theirs = record_side(on, Side.THEIRS, on.engine, on.directory / "conversion.json")
    result = gate.check(
        ours,
        theirs,
        run_id=on.run_id,
        sglang=pinned_sglang(ROOT),
        against=older,
        seconds=time.monotonic() - begun,
    )
    write_result(result, on.directory)
    print("\n".join(result_lines(result, on.directory)))
    return result.exit_code
