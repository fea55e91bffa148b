"""`sglang-upgrade`: the CPU engine with another version of SGLang, beside the one that is pinned, as one table.

Nothing of the working tree is written: the candidate is built from files of its own, and the pins are moved by a person
who has read the table. A version that does not exist, or whose packages cannot be had together, is found before
anything is built; stubs that are not enough end the comparison at that row, by name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.reading import load_settings
from runner.base.settings import EngineKind, Settings
from runner.base.terms import ExitCode
from runner.cli.e2e import e2e
from runner.cli.gates import Bench, bench, record_side, run_kit
from runner.cli.stacks import IMAGES, ROOT
from runner.cli.variables import apply
from runner.contract.conversion import gate, recording
from runner.contract.conversion.recording import Recording
from runner.contract.conversion.recording import Side as Which
from runner.contract.result import ContractResult
from runner.contract.upgrade import NOT_RUN, Findings, Side, Upgrade, table, write_upgrade
from runner.ground import candidate, images
from runner.ground.candidate import Candidate, Declared
from runner.ground.client import Docker
from runner.ground.pin import pinned_sglang
from runner.ground.recipe import RECIPES
from runner.ground.shell import run
from runner.ground.site import Site
from runner.verdict.artifacts import VERDICT_NAME
from runner.verdict.model import Verdict

_ASK_SECONDS = 120.0
_ASK_SEAL = "from serve import check; check.quick(); print(f'{len(check.MODULES)} modules import')"
"""Whether the seal of the build's stub check fits what the image has, and for how many modules it was made."""

_SIDES = ("old", "new")


def upgrade(version: str, variables: Sequence[str], *, timeout: float) -> ExitCode:
    """Build, check, compare. 1 where something speaks against the version, 2 where there is no such version."""
    apply(variables)
    settings = load_settings()
    wanted, pinned = candidate.checked_version(version), pinned_sglang(ROOT)
    _refuse(settings)
    asked, present = candidate.declared(wanted), candidate.declared(pinned)
    made = _made(wanted, settings, asked)
    on = bench(settings, IMAGES, "upgrade")
    for name in candidate.REQUIREMENTS:
        shutil.copy(made.folder / name, on.directory / name)
    import_module("runner.cli.leases")  # with the rest of this code: minutes later the tree may be another one
    findings = Findings()
    findings.requirements(*(_constraints(of) for of in (present, asked)))
    findings.packages(_working_lock(), made.locked)
    old, (new, problem) = on.engine, _build(on, made)
    findings.stubs(_seal(on, old), _seal(on, new) if new else "fails", problem)
    code = ExitCode.OK
    try:
        if new:
            code = _compare(on, findings, {"old": (old, pinned), "new": (new, wanted)}, timeout)
        else:
            for check in ("Anthropic kit, live", "SGLang's conversion", "ours against it", "cells"):
                findings.row(check, NOT_RUN, NOT_RUN)
    except BaseException as error:
        findings.not_made("all that comes after", f"{type(error).__name__} {error}".rstrip())
        raise
    finally:  # an hour's work is told, whatever ended it
        sides = Side(version=pinned, image=old), Side(version=wanted, image=new or NOT_RUN)
        result = findings.result(on.run_id, *sides, _kept(on.directory))
        write_upgrade(result, on.directory)
        _tell(result, on.directory)
    return code if code is ExitCode.INTERRUPTED else result.exit_code


def _refuse(settings: Settings) -> None:
    problems = []
    if settings.engine is not EngineKind.CPU:
        problems.append("sglang-upgrade builds the CPU engine, and ENGINE is 'gpu'; unset ENGINE")
    if settings.engine_image:
        problems.append("sglang-upgrade chooses both engine images itself; unset ENGINE_IMAGE")
    if settings.targets:
        problems.append("sglang-upgrade starts what it checks; unset ENGINE_URL, SESSION_V1_URL and SESSION_V2_URL")
    if problems:
        raise ConfigurationError(problems)


def _made(version: str, settings: Settings, asked: Declared) -> Candidate:
    return candidate.make(version, Site.here(ROOT, base_image=settings.base_image), asked)


def _constraints(of: Declared) -> dict[str, str]:
    return {name: str(requirement.specifier) for name, requirement in of.requirements.items()}


def _working_lock() -> dict[str, str]:
    path = ROOT / candidate.RECIPE.context / "requirements.lock"
    return candidate.locked(path.read_text(encoding="utf-8"))


def _build(on: Bench, made: Candidate) -> tuple[str, str]:
    """The candidate's image, or nothing and why its stubs are too small. Any other failure of the build is raised."""
    recipes, name = candidate.recipe(), candidate.RECIPE.name
    base, engine = on.ground.base, on.ground.engine
    tag = images.tags([name], made.site, base, recipes)[name]
    log = made.site.logs / f"build-{name}-{tag.rpartition(':')[2]}.log"
    client, stages = Docker(on.ground.env, run), f"{images.IMAGE_LABEL}={RECIPES['engine-cpu'].name}"
    before = set(client.image_ids(stages))
    try:
        images.ensure([name], made.site, base, engine, on.emit, on.ground.env, recipes=recipes)
    except InfrastructureError:
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        found = re.search(r"stub check: (?!\d+ modules)(.+?\n(?:  .+\n)*)", text)
        for layer in re.findall(r"^ ---> ([0-9a-f]{12})$", text, re.MULTILINE)[-1:]:
            client.untag(layer)  # what the failed step stood on, with all that only it needs
        if found is None:
            raise
        on.phase("contract", "stubs", "not enough; nothing else is checked")
        return "", "; ".join(line.strip() for line in found[1].splitlines())
    finally:
        for id in set(client.image_ids(stages)) - before:
            client.untag(id)  # gigabytes that nothing needs any more
        if log.is_file():
            shutil.copy(log, on.directory / "build.log")
    return tag, ""


def _seal(on: Bench, image: str) -> str:
    command = ("docker", "run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", _ASK_SEAL)
    done = run(command, timeout=_ASK_SECONDS, env=on.ground.env).check(f"{image} does not say what its stubs fit")
    return done.stdout.strip()


def _compare(on: Bench, findings: Findings, sides: Mapping[str, tuple[str, str]], timeout: float) -> ExitCode:
    """Every check on both images, the old one first; what is compared is in `findings`."""
    kits = [run_kit(on, *sides[side], on.directory / side / "kit", timeout=timeout) for side in _SIDES]
    findings.kit(*kits)
    try:
        _conversions(on, findings, sides)
    except InfrastructureError as error:
        findings.not_made("SGLang's conversion", str(error))
    verdicts = []
    for side in _SIDES:
        try:
            code, verdict = _cells(sides[side][0], on.directory / side / "cells")
        except InfrastructureError as error:
            findings.not_made("cells", str(error))
            return ExitCode.OK
        if verdict is None or code is ExitCode.INTERRUPTED:
            findings.not_made("cells", f"the run on {sides[side][0]} ended with {code:d}")
            return code
        verdicts.append(verdict)
    findings.cells(*verdicts)
    return ExitCode.OK


def _conversions(on: Bench, findings: Findings, sides: Mapping[str, tuple[str, str]]) -> None:
    ours = record_side(on, Which.OURS, on.session, on.directory / "ours.json")
    theirs = [record_side(on, Which.THEIRS, sides[side][0], on.directory / side / "conversion.json") for side in _SIDES]
    findings.conversion(len(theirs[0].cases()), recording.changes(*theirs))
    findings.ours(*(_judge(on, ours, one, sides[side][1]) for side, one in zip(_SIDES, theirs, strict=True)))


def _judge(on: Bench, ours: Recording, theirs: Recording, version: str) -> ContractResult:
    return gate.check(ours, theirs, run_id=on.run_id, sglang=version)


def _cells(image: str, artifacts: Path) -> tuple[ExitCode, Verdict | None]:
    """The whole job on this engine image, as `e2e` does it."""
    code = e2e([f"ENGINE_IMAGE={image}", f"ARTIFACTS={artifacts}"])
    found = sorted(artifacts.glob(f"*/{VERDICT_NAME}"))
    return code, Verdict.model_validate_json(found[-1].read_bytes()) if found else None


def _kept(directory: Path) -> dict[str, str]:
    files = (path.relative_to(directory).as_posix() for path in sorted(directory.rglob("*.json")))
    return {name.removesuffix(".json"): name for name in files if name.count("/") <= 2}


def _tell(result: Upgrade, directory: Path) -> None:
    print("\n".join(["", *table(result), ""]))
    told = {"changed": result.changed, "not checked": result.broken, "against it": result.problems}
    for title, found in told.items():
        print("\n".join([f"{title}: nothing"] if not found else [f"{title}:", *(f"  - {one}" for one in found)]))
    if result.old.version != result.new.version and not (result.problems or result.broken):
        names = ",".join(candidate.REQUIREMENTS)
        print(f"to move the pins: cp {directory}/{{{names}}} {candidate.RECIPE.context}/")
    if result.new.image != NOT_RUN:
        print(f"the candidate stays as {result.new.image}; to remove it: docker rmi {result.new.image}")
    print(f"artifacts: {directory}")
