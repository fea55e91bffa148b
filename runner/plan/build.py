"""Makes the plan: families x lanes x scenarios, with seeds, limits and the reason for every cell that will not run.

Pure: what the plan says follows from its arguments alone, so that the same arguments give the same plan, and a cell
that is planned alone (CELL=...) is driven exactly as it was in the whole matrix. Asking by name for something that
cannot run is an error; what merely falls out of `all` or of a default is planned as not applicable, with its reason.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from runner.base.errors import ConfigurationError
from runner.base.reading import read_settings
from runner.base.settings import OnInfra, Settings
from runner.base.terms import CellId, Lane, ServerVersion, WireFormat
from runner.base.values import ALL
from runner.plan.expected import balanced, lease_seconds
from runner.plan.families import Families, FamiliesFile, Family, read_families
from runner.plan.model import EngineKind, Limits, Matcher, Plan, PlannedCell, PlannedLease, PlannedSample
from runner.plan.restrict import restricted, restrictions, streams
from runner.plan.scenarios import SCENARIOS

BUILT_LANES = frozenset(Lane)
"""The lanes that this version can drive."""

MODELS = "/models"
"""Where engine, session servers and runner see the micro models."""

TURN_TIMEOUT = 180.0
"""Seconds that one request may take; upstream's verifier waits as long."""

_LAST_PORT = 65535
_SEED_SPACE = 2**30
"""Below 2**31 with room for the 1,000,000 that every retry adds."""


def new_run_id(now: datetime) -> str:
    """A run id that sorts by time and may be part of a Compose project name: `20260102-030405-9f3a1c` (UTC)."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def sample_seed(seed: int, cell: CellId, index: int) -> int:
    """The seed of one sample, in [0, 2**30): it depends on run seed, cell and index, not on what else is planned."""
    digest = hashlib.sha256(f"{seed}:{cell}:{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % _SEED_SPACE


def prepare_plan(
    overrides: Mapping[str, object] | None = None,
    *,
    run_id: str,
    now: datetime,
    versions: Mapping[str, str],
    built: Collection[Lane] = BUILT_LANES,
) -> tuple[Settings, Families, Plan]:
    """Environment and command line options (`overrides`, by field name) to a plan, with all problems in one error.

    Raises:
        ConfigurationError: every problem of the settings, of the families file and of the two together.
    """
    settings, problems = read_settings(overrides)
    file = read_families(settings.families_file)
    problems += file.problems + _unknown(settings, file)
    if not problems:
        problems += _impossible(settings, file.families, built)
    if problems:
        raise ConfigurationError(problems)
    plan = build_plan(settings, file.families, run_id=run_id, now=now, versions=versions, built=built)
    return settings, file.families, plan


def build_plan(
    settings: Settings,
    families: Families,
    *,
    run_id: str,
    now: datetime,
    versions: Mapping[str, str],
    built: Collection[Lane] = BUILT_LANES,
) -> Plan:
    """The plan for these settings.

    Args:
        built: the lanes that this version can drive; a planned cell of another lane is not applicable.
        versions: what was found out about versions and digests; goes into the plan as it is.

    Raises:
        ConfigurationError: every name that does not exist and everything that was asked for by name and cannot run.
    """
    problems = _unknown(settings, FamiliesFile(families, tuple(families), [])) or _impossible(settings, families, built)
    if problems:
        raise ConfigurationError(problems)
    cells = [plan_cell(settings, families[cell.family], cell, built) for cell in _wanted(settings, families)]
    shares = _shares(settings, families, cells)
    elsewhere = {
        shard: [str(cell.id) for cell in cells if cell.family in share]
        for shard, share in shares.items()
        if shard != settings.shard
    }
    cells = [cell for cell in cells if cell.family in shares[settings.shard]]
    runnable = {cell.family for cell in cells if cell.applicable}
    return Plan(
        run_id=run_id,
        created_at=now,
        seed=settings.seed,
        shard=settings.shard,
        elsewhere=elsewhere,
        stall_timeout=settings.stall_seconds,
        timeout=settings.lease_seconds,
        leases=[
            plan_lease(settings, name, families[name], position)
            for position, name in enumerate(name for name in families if name in runnable)
        ],
        cells=cells,
        versions=dict(versions),
    )


def plan_cell(settings: Settings, family: Family, cell: CellId, built: Collection[Lane] = BUILT_LANES) -> PlannedCell:
    """One cell of the plan, applicable or not."""
    anthropic = cell.lane.wire is WireFormat.ANTHROPIC
    scenario = SCENARIOS[cell.scenario]
    taken_out = restrictions(settings, family)
    family = restricted(settings, family)
    reason = why_not(settings, family, cell, built)
    # Every worker serves somebody, unless the person or the scenario says how many samples there are.
    count = settings.samples or scenario.samples or max(family.samples.of(settings.engine), settings.workers)
    # Not from the place in the plan: a cell that is run again alone must get the same wire modes and workers.
    first = list(Lane).index(cell.lane)
    begin = zlib.crc32(str(cell).encode())
    threshold = family.soft_threshold.anthropic if anthropic else family.soft_threshold.openai
    soft = threshold if scenario.soft is None else scenario.soft
    return PlannedCell(
        family=cell.family,
        lane=cell.lane,
        scenario=cell.scenario,
        about=scenario.about,
        applicable=not reason,
        reason=reason,
        samples=[
            PlannedSample(
                index=index,
                seed=sample_seed(settings.seed, cell, index),
                stream=streams(settings, first + index),
                worker=(begin + index) % settings.workers,
            )
            for index in range(0 if reason else count)
        ],
        restricted=taken_out,
        cycles=settings.cycles or family.cycles,
        append_roles=family.append_roles,
        failure_mode=family.failure_mode,
        max_trim_tokens=family.max_trim_tokens,
        temperature=family.temperature if scenario.temperature is None else scenario.temperature,
        max_tokens=scenario.max_tokens or family.response_budget.of(settings.engine),
        turn_timeout=TURN_TIMEOUT,
        tool_call_parser=family.tool_call_parser,
        may_differ=family.may_differ,
        message_matcher=Matcher.LOOSE_TOOL_CALL if anthropic else Matcher.STRICT,
        intermediate_system=family.anthropic_intermediate_system_expectation if anthropic else None,
        limits=Limits(
            soft=0.0 if soft is None else soft,
            content=family.content_limit,
            recreations=int(settings.on_infra is OnInfra.ACCEPT),
        ),
        required_events=list(scenario.events(family, cell.lane)),
        required_once=list(scenario.once(family, cell.lane)),
        weight=scenario.weight,
    )


def plan_lease(settings: Settings, name: str, family: Family, position: int = 0) -> PlannedLease:
    """The lease of one family, which is the one at `position` of its run."""
    gpu = settings.engine is EngineKind.GPU
    return PlannedLease(
        family=name,
        model=family.model if gpu else f"{MODELS}/{name}",
        tokenizer=str(settings.tokenizer.resolve())
        if settings.tokenizer
        else family.model
        if gpu
        else f"{MODELS}/{name}",
        tito_model=family.tito_model,
        reasoning_parser=family.reasoning_parser,
        tool_call_parser=family.tool_call_parser,
        context_length=family.context_length.of(settings.engine),
        engine=settings.engine,
        gpus=family.gpus if gpu else 0,
        tensor_parallel=family.tensor_parallel if gpu else 1,
        expert_parallel=family.expert_parallel if gpu else 1,
        speculative=str(family.speculative) if gpu and family.speculative else "",
        engine_args=engine_args(family) if gpu else [],
        ready_timeout=settings.ready_timeout or family.ready_timeout.of(settings.engine),
        urls=settings.targets,
        workers=settings.workers,
        ports=published_ports(settings, position),
        deprecated=family.deprecated,
    )


def published_ports(settings: Settings, position: int) -> dict[str, tuple[int, int]]:
    """Session service -> first and last port of its workers in the lease at `position`; empty where Docker chooses.

    From SESSION_SERVER_PORT on: the workers of v1, then those of v2, then the next lease's, which may run beside it.
    """
    if settings.session_server_port is None:
        return {}
    versions = list(ServerVersion)
    first = settings.session_server_port + position * len(versions) * settings.workers
    starts = {f"session-{version}": first + index * settings.workers for index, version in enumerate(versions)}
    return {service: (start, start + settings.workers - 1) for service, start in starts.items()}


def engine_args(family: Family) -> list[str]:
    """Launch arguments of the GPU engine beyond model, parsers, context length and parallelism."""
    arguments = []
    if family.speculative:
        arguments += [
            *("--speculative-algorithm", "EAGLE"),
            *("--speculative-num-steps", str(family.speculative.num_steps)),
            *("--speculative-eagle-topk", str(family.speculative.eagle_topk)),
            *("--speculative-num-draft-tokens", str(family.speculative.draft_tokens)),
        ]
    if not family.prefill_cuda_graph:
        arguments += ["--cuda-graph-backend-prefill", "disabled"]
    return arguments


def why_not(settings: Settings, family: Family, cell: CellId, built: Collection[Lane]) -> str:
    """Why this cell of this family cannot run, or an empty string where it can."""
    lane = cell.lane
    if lane.wire is WireFormat.ANTHROPIC and not family.verify_anthropic:
        return f"the family opts out of Anthropic verification: {family.anthropic_opt_out}"
    if settings.targets and lane.service not in settings.targets:
        return (
            f"{lane.service.replace('-', '_').upper()}_URL is not set, and only servers that already run are verified"
        )
    if settings.engine is EngineKind.CPU and not family.micro_model and not settings.targets:
        return "there is no micro model of this family; only ENGINE=gpu can run it"
    if lane not in built:
        return f"this version does not drive {lane} yet"
    beside = SCENARIOS[cell.scenario].beside.get(lane)
    if settings.targets and beside is not None and beside.service not in settings.targets:
        unset = f"{beside.service.replace('-', '_').upper()}_URL"
        return f"{unset} is not set, and {cell.scenario} compares this lane with {beside}"
    return SCENARIOS[cell.scenario].why_not(restricted(settings, family), lane)


def _wanted(settings: Settings, families: Families) -> list[CellId]:
    if settings.cell:
        return list(settings.cell)
    chosen = [name for name in families if settings.family == (ALL,) or name in settings.family]
    scenarios = [name for name in SCENARIOS if settings.scenarios == (ALL,) or name in settings.scenarios]
    lanes = [lane for lane in Lane if lane in settings.lanes]
    return [CellId(name, lane, scenario) for name in chosen for lane in lanes for scenario in scenarios]


def _shares(settings: Settings, families: Families, cells: Sequence[PlannedCell]) -> dict[str, set[str]]:
    """Shard -> its families, balanced by expected time. Those that cannot run are dealt out in turn."""
    count = int(settings.shard.split("/")[1])
    of = {
        name: [cell for cell in cells if cell.family == name] for name in dict.fromkeys(cell.family for cell in cells)
    }
    runs = [name for name, mine in of.items() if any(cell.applicable for cell in mine)]
    seconds = {name: lease_seconds(plan_lease(settings, name, families[name]), of[name]) for name in runs}
    rests = [name for name in of if name not in seconds]
    return {
        f"{index + 1}/{count}": {*dealt, *rests[index::count]} for index, dealt in enumerate(balanced(seconds, count))
    }


def _unknown(settings: Settings, file: FamiliesFile) -> list[str]:
    """Names that do not exist. Families are not judged where the file could not be read."""
    problems = []
    if file.declared is not None:
        known = ", ".join(file.declared)
        if settings.family != (ALL,) and not settings.cell:
            missing = [name for name in settings.family if name not in file.declared]
            problems += [f"FAMILY={name!r}: no such family; allowed: {known}, or all" for name in missing]
        for cell in settings.cell:
            if cell.family not in file.declared:
                problems.append(f"CELL={str(cell)!r}: no such family {cell.family!r}; allowed: {known}")
    if settings.scenarios != (ALL,) and not settings.cell:
        missing = [name for name in settings.scenarios if name not in SCENARIOS]
        problems += [
            f"SCENARIOS={name!r}: no such scenario; allowed: {', '.join(SCENARIOS)}, or all" for name in missing
        ]
    for cell in settings.cell:
        if cell.scenario not in SCENARIOS:
            problems.append(f"CELL={str(cell)!r}: no such scenario; allowed: {', '.join(SCENARIOS)}")
    return problems


def _impossible(settings: Settings, families: Families, built: Collection[Lane]) -> list[str]:
    """What was asked for by name and cannot run. All names must be known."""
    reasons = {cell: why_not(settings, families[cell.family], cell, built) for cell in _wanted(settings, families)}
    problems = []
    if settings.cell:
        problems += [f"CELL={str(cell)!r} cannot run: {reason}" for cell, reason in reasons.items() if reason]
    else:
        asked = (("family", settings.family), ("lanes", settings.lanes), ("scenarios", settings.scenarios))
        for field, names in asked:
            if not settings.named(field):
                continue
            for name in names:
                concerned = [
                    reason for cell, reason in reasons.items() if name in (cell.family, cell.lane, cell.scenario)
                ]
                if all(concerned):
                    problems.append(f"{field.upper()}={str(name)!r} cannot run: {'; '.join(dict.fromkeys(concerned))}")
    running = list(dict.fromkeys(cell.family for cell, reason in reasons.items() if not reason))
    if not running and not problems:
        problems.append(f"nothing can run: {'; '.join(dict.fromkeys(reasons.values()))}")
    shards = int(settings.shard.split("/")[1])
    if running and shards > len(running):
        problems.append(
            f"SHARD={settings.shard!r} leaves shards with nothing to run: only {', '.join(running)} can run; allowed:"
            f" at most {len(running)} shard{'s' if len(running) > 1 else ''}"
        )
    if settings.targets and len(running) > 1:
        problems.append(f"servers that already run serve one family, and FAMILY or CELL names {', '.join(running)}")
    last = published_ports(settings, max(0, len(running) - 1))
    if last and (highest := max(end for _, end in last.values())) > _LAST_PORT:
        problems.append(
            f"SESSION_SERVER_PORT={settings.session_server_port}: {len(running)} leases x 2 versions x WORKERS="
            f"{settings.workers} reach up to port {highest}; allowed: up to {_LAST_PORT}"
        )
    if settings.gpus:
        for name in running:
            if len(settings.gpus) < families[name].gpus:
                shown = ",".join(map(str, settings.gpus))
                problems.append(f"GPUS={shown!r}: family {name} needs {families[name].gpus} devices")
    return problems
