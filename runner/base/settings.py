"""Every environment variable that the host commands know, in one model.

The names have no prefix because they are also make variables (`make e2e FAMILY=qwen3 SAMPLES=4`). An empty value
counts as unset. All problems are found before anything starts and come in one error. What a name means - which
families exist, which lane a family can run - is decided by `runner.plan`, which sees the families file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from runner.base import values
from runner.base.terms import CellId, Lane, Role
from runner.base.values import ALL


class EngineKind(StrEnum):
    """Where the engine runs."""

    CPU = "cpu"
    GPU = "gpu"
    SCRIPTED = "scripted"
    """No SGLang and no model: rules over family-shaped tokenizers, to try the whole matrix without either."""


class OnInfra(StrEnum):
    """What is done when something underneath the verification broke: a container, the engine, a GPU, the network."""

    STOP = "stop"
    RECREATE = "recreate"
    ACCEPT = "accept"


class StreamMode(StrEnum):
    """Which samples ask for a streamed reply."""

    BOTH = "both"
    ALWAYS = "always"
    NEVER = "never"


DEFAULT_STALL_TIMEOUT = {EngineKind.CPU: 120.0, EngineKind.GPU: 300.0, EngineKind.SCRIPTED: 60.0}
"""Seconds; a GPU turn may sample thousands of tokens before anything is visible."""
DEFAULT_TIMEOUT = {EngineKind.CPU: 1800.0, EngineKind.GPU: 5400.0, EngineKind.SCRIPTED: 600.0}
"""Seconds for all lanes of a lease, which run at the same time."""
DEFAULT_LEASES = {EngineKind.CPU: 1, EngineKind.SCRIPTED: 2}
"""An engine with a model wants the whole CPU; a scripted one hardly any. On GPUs the devices decide."""

MOST_SAMPLES = 1000
"""Sessions of a cell: hours on a CPU, and a plan of all families and scenarios that still takes seconds to write."""
MOST_CYCLES = 100
"""About 500 turns, each with the whole history: far beyond what the engine on the CPU can hold."""
MOST_WORKERS = 64
"""Of each version: with engine and runner 130 containers in one network, which has 254 addresses by default."""


def _field(default: Any, doc: str, allowed: str, *, shown: str = "", **bounds: Any) -> Any:
    """A variable with its doc. `allowed` is what a wrong value is answered with; `shown` the default in words."""
    return Field(default, description=doc, json_schema_extra={"allowed": allowed, "shown": shown}, **bounds)


def _one_or_zero(value: object) -> object:
    """The value as it is, unless it is another text: pydantic would take *yes* and *off* as well."""
    if isinstance(value, str) and value not in ("1", "0"):
        raise ValueError("is neither")
    return value


def counted(most: int) -> str:
    """What a count that has an upper limit may hold, in words."""
    return f"a whole number, at least 1 and at most {most}"


_SECONDS = "seconds, more than 0"


class Settings(BaseSettings):
    """What the environment says. Fields left None take a default that depends on family or engine."""

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True, allow_inf_nan=False)

    family: Annotated[tuple[str, ...], NoDecode, BeforeValidator(values.names)] = _field(
        ("qwen3",), "Model families to verify.", "names of the families file, comma separated, or all", shown="qwen3"
    )
    lanes: Annotated[tuple[Lane, ...], NoDecode, BeforeValidator(values.lanes)] = _field(
        tuple(Lane), "Lanes to run.", f"{', '.join(Lane)}, comma separated, or all", shown="all"
    )
    scenarios: Annotated[tuple[str, ...], NoDecode, BeforeValidator(values.names)] = _field(
        ("baseline",),
        "Scenarios to run in every lane.",
        "names of docs/verification.md (Scenarios), comma separated, or all",
        shown="baseline",
    )
    cell: Annotated[tuple[CellId, ...], NoDecode, BeforeValidator(values.cells)] = _field(
        (),
        "Run exactly these cells, instead of FAMILY x LANES x SCENARIOS.",
        "family/lane or family/lane/scenario, comma separated",
        shown="unset",
    )
    engine: EngineKind = _field(
        EngineKind.CPU,
        "The engine: SGLang with a micro model on the CPU, with the family's model on GPUs, or rules without SGLang.",
        "cpu, gpu or scripted",
    )
    gpus: Annotated[tuple[int, ...], NoDecode, BeforeValidator(values.gpus)] = _field(
        (), "GPU devices that may be used (ENGINE=gpu).", "device indices, comma separated, each once", shown="all free"
    )
    samples: int | None = _field(
        None,
        "Sessions to drive in every cell.",
        counted(MOST_SAMPLES),
        shown="the family's: 2 on CPU",
        ge=1,
        le=MOST_SAMPLES,
    )
    cycles: int | None = _field(
        None,
        "Cycles of the OpenAI schedule.",
        counted(MOST_CYCLES),
        shown="the family's",
        ge=1,
        le=MOST_CYCLES,
    )
    stream: StreamMode = _field(
        StreamMode.BOTH,
        "Wire modes of the samples; less than both is told in every report.",
        ", ".join(StreamMode),
    )
    append_roles: Annotated[tuple[Role, ...], NoDecode, BeforeValidator(values.roles)] | None = _field(
        None,
        "Restrict what is appended between turns, for a server that promises less; told in every report.",
        f"{', '.join(Role)}, comma separated, tool among them",
        shown="the family's",
    )
    seed: int = _field(
        1,
        "Seed of the run; the seed of every sample is derived from it.",
        "a whole number, 0 to 2**63-1",
        ge=0,
        lt=2**63,
    )
    shard: Annotated[str, BeforeValidator(values.shard)] = _field(
        "1/1", "Run the i-th of n parts of the plan; families are dealt out by expected time.", "i/n with 1 <= i <= n"
    )
    compose_override: Path | None = _field(
        None,
        "Compose file laid over compose.yaml for every lease (own mounts, limits, proxies); kept in the artifacts.",
        "a path to a Compose file",
        shown="unset",
    )
    keep: Annotated[bool, BeforeValidator(_one_or_zero)] = _field(
        False, "Leave the containers running after the run.", "1 or 0"
    )
    timeout: float | None = _field(
        None,
        "Seconds for all verification of a lease, once its stack is ready.",
        _SECONDS,
        shown="1800, GPU 5400, scripted 600",
        gt=0,
    )
    stall_timeout: float | None = _field(
        None,
        "Seconds without any progress after which a lane is ended.",
        _SECONDS,
        shown="120, GPU 300, scripted 60",
        gt=0,
    )
    ready_timeout: float | None = _field(
        None, "Seconds from start of the engine to its first proven token.", _SECONDS, shown="the family's", gt=0
    )
    workers: int = _field(
        1,
        "Session-server workers per version, each a container with a port of its own; samples are spread over them.",
        counted(MOST_WORKERS),
        ge=1,
        le=MOST_WORKERS,
    )
    session_server_port: int | None = _field(
        None,
        "First of the ports that session servers are published on: WORKERS ports for v1, the next WORKERS for v2.",
        "a port, 1 to 65535",
        shown="Docker chooses each port",
        ge=1,
        le=65535,
    )
    on_infra: OnInfra = _field(
        OnInfra.RECREATE,
        "When something underneath breaks in mid-run: stop there; or create the lease once more for the cells that it"
        " cost, which stay infra (recreate) or may pass, marked as on retry (accept).",
        "stop, recreate or accept",
    )
    leases: int | None = _field(
        None,
        "Families that run at the same time; on GPUs the devices decide.",
        "a whole number, at least 1",
        shown="1, scripted 2",
        ge=1,
    )
    base_image: Annotated[str, BeforeValidator(values.image)] | None = _field(
        None,
        "Base image of everything that is built here.",
        "an image reference",
        shown="python:3.11-slim-bookworm, or an offline stand-in",
    )
    engine_image: Annotated[str, BeforeValidator(values.image)] | None = _field(
        None,
        "Engine image to run instead of the one built here (CPU) or pinned (GPU).",
        "an image reference",
        shown="unset",
    )
    session_image: Annotated[str, BeforeValidator(values.image)] | None = _field(
        None, "Session-server image to verify instead of the one built here.", "an image reference", shown="unset"
    )
    engine_url: Annotated[str, BeforeValidator(values.base_url)] | None = _field(
        None,
        "Engine that already runs, for the checks that ask the engine itself (with SESSION_V1_URL, SESSION_V2_URL).",
        "http://host:port",
        shown="unset",
    )
    session_v1_url: Annotated[str, BeforeValidator(values.base_url)] | None = _field(
        None, "Linear session server that already runs: verified without Docker.", "http://host:port", shown="unset"
    )
    session_v2_url: Annotated[str, BeforeValidator(values.base_url)] | None = _field(
        None, "Tree session server that already runs: verified without Docker.", "http://host:port", shown="unset"
    )
    tokenizer: Path | None = _field(
        None,
        "Tokenizer of the servers that already run (tokenizer.json, tokenizer_config.json, chat_template.jinja).",
        "a path to a directory",
        shown="unset",
    )
    hf_home: Path | None = _field(
        None,
        "Model cache with the weights of ENGINE=gpu; mounted read-only, nothing is downloaded.",
        "a path to a directory",
        shown="~/.cache/huggingface",
    )
    artifacts: Path = _field(Path("artifacts"), "Directory that gets one directory per run.", "a path")
    families_file: Path | None = _field(
        None, "Families file to use instead of the package's own.", "a path to a TOML file", shown="unset"
    )
    sglang_source_root: Path | None = _field(
        None,
        "Checkout of SGLang at the pinned commit, whose own conversion tests `make contract` runs.",
        "a path to a directory",
        shown="unset: skipped, and in CI a failure",
    )
    sglang_python: str | None = _field(
        None,
        "Interpreter that has pytest and SGLang's packages, for these tests.",
        "a path or a name on PATH",
        shown="the one that runs this",
    )
    ci: Annotated[bool, BeforeValidator(values.switched_on)] = _field(
        False, "Set by CI systems: plain lines instead of a live table.", "anything; 0, false, no and off mean no"
    )
    github_actions: Annotated[bool, BeforeValidator(values.switched_on)] = _field(
        False, "Set by GitHub Actions: failures become annotations.", "anything; 0, false, no and off mean no"
    )
    github_step_summary: Path | None = _field(
        None, "Set by GitHub Actions: the file that gets summary.md.", "a path", shown="unset"
    )

    def named(self, field: str) -> bool:
        """Whether this field was asked for by name: set, and not by `all`. What is named must be able to run."""
        if field not in self.model_fields_set:
            return False
        value = {"family": self.family, "lanes": self.lanes, "scenarios": self.scenarios, "cell": self.cell}[field]
        return value != (ALL,) and value != tuple(Lane)

    @property
    def targets(self) -> dict[str, str]:
        """Service (`engine`, `session-v1`, `session-v2`) -> base URL of servers that already run; empty for none."""
        urls = {"engine": self.engine_url, "session-v1": self.session_v1_url, "session-v2": self.session_v2_url}
        return {service: url for service, url in urls.items() if url}

    @property
    def stall_seconds(self) -> float:
        """The stall time-out in force, seconds."""
        return DEFAULT_STALL_TIMEOUT[self.engine] if self.stall_timeout is None else self.stall_timeout

    @property
    def leases_at_once(self) -> int:
        """How many leases run at the same time where no devices decide it."""
        return self.leases or DEFAULT_LEASES.get(self.engine, 1)

    @property
    def lease_seconds(self) -> float:
        """The time-out in force for the verification of a lease, seconds."""
        return DEFAULT_TIMEOUT[self.engine] if self.timeout is None else self.timeout


@dataclass(frozen=True)
class Variable:
    """One row of the documentation: what a person can set, what it may hold, what holds when it is unset."""

    name: str
    doc: str
    allowed: str
    default: str


def variables() -> list[Variable]:
    """Every variable, in the order of the model."""
    return [
        Variable(field.upper(), info.description or "", shown_as(field, "allowed"), _default(field))
        for field, info in Settings.model_fields.items()
    ]


def describe() -> str:
    """The variables as text for `--help`, two lines each."""
    width = max(len(variable.name) for variable in variables())
    return "\n".join(
        f"  {variable.name:<{width}}  {variable.doc}\n  {'':<{width}}  {variable.allowed} [default: {variable.default}]"
        for variable in variables()
    )


def describe_markdown() -> str:
    """The variables as a Markdown table for the documentation."""
    rows = [f"| `{v.name}` | {v.doc} | {v.allowed} | {v.default} |" for v in variables()]
    return "\n".join(["| variable | what it does | values | default |", "|---|---|---|---|", *rows]) + "\n"


def shown_as(field: str, key: str) -> str:
    """What the documentation of a field says under `key` (`allowed`, `shown`), or an empty string."""
    extra = Settings.model_fields[field].json_schema_extra
    return str(extra[key]) if isinstance(extra, dict) else ""


def _default(field: str) -> str:
    shown = shown_as(field, "shown")
    if shown:
        return shown
    default = Settings.model_fields[field].get_default()
    return str(int(default)) if isinstance(default, bool) else str(default)
