"""The families file: what is true of a model family, written down once and refused as a whole when it is wrong.

A family says what may be appended to a conversation, how its tokens join, which parsers it is bound to and what is
tolerated. Nothing here is looked up from a model: the file is a contract, and a family that does not declare its part
of it (the Anthropic part above all) is an error, not a default.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.base.errors import ConfigurationError
from runner.base.settings import MOST_CYCLES, MOST_SAMPLES, counted
from runner.base.terms import CellId, Difference, Lane, Role
from runner.base.values import ALL
from runner.plan.model import EngineKind, FailureMode, SystemExpectation

SCHEMA_VERSION = 1
DEFAULT_FILE = Path(__file__).with_name("families.toml")


@dataclass(frozen=True)
class Bound:
    """What a tokenizer family fixes. A row that says otherwise would be refused by the session server as well."""

    reasoning_parser: str
    tool_call_parser: str
    append_roles: frozenset[Role]
    max_trim_tokens: int = 0


_ANY = frozenset(Role)
_NO_SYSTEM = _ANY - {Role.SYSTEM}

BOUND: dict[str, Bound] = {
    "qwen3": Bound("qwen3", "qwen25", _ANY),
    "qwen35": Bound("qwen3", "qwen3_coder", _NO_SYSTEM),
    "qwen36": Bound("qwen3", "qwen3_coder", _NO_SYSTEM),
    "qwennext": Bound("qwen3", "qwen25", _ANY),
    "glm47": Bound("glm45", "glm47", _ANY, max_trim_tokens=1),
    "nemotron3": Bound("nemotron_3", "qwen3_coder", _ANY),
    "kimi26": Bound("kimi_k2", "kimi_k2_raw_id", _ANY),
    "minimax_m25": Bound("minimax-append-think", "minimax-m2", _NO_SYSTEM),
    "minimax_m27": Bound("minimax-append-think", "minimax-m2", _NO_SYSTEM),
    "deepseekv32": Bound("deepseek-v3", "deepseekv32", _ANY),
    "deepseekv4": Bound("deepseek-v4", "deepseekv4", _NO_SYSTEM),
    "inkling": Bound("inkling", "inkling", _ANY),
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


_Count = Annotated[int, Field(ge=1, description="a whole number, at least 1")]
_Cycles = Annotated[int, Field(ge=1, le=MOST_CYCLES, description=counted(MOST_CYCLES))]
_Samples = Annotated[int, Field(ge=1, le=MOST_SAMPLES, description=counted(MOST_SAMPLES))]
_Seconds = Annotated[float, Field(gt=0, description="seconds, more than 0")]
_Ratio = Annotated[float, Field(ge=0, le=1, description="a ratio, 0 to 1")]
_Name = Annotated[str, Field(min_length=1, description="a name")]
_Role = Annotated[Role, Field(strict=False)]


class CountByEngine(_Strict):
    """A count that differs between the micro model on the CPU and the real model."""

    cpu: _Count
    gpu: _Count

    def of(self, engine: EngineKind) -> int:
        """The count for this engine."""
        return self.gpu if engine is EngineKind.GPU else self.cpu


class SamplesByEngine(CountByEngine):
    """Sessions of a cell, on CPU and GPU."""

    cpu: _Samples
    gpu: _Samples


class SecondsByEngine(_Strict):
    """A duration in seconds that differs between CPU and GPU."""

    cpu: _Seconds
    gpu: _Seconds

    def of(self, engine: EngineKind) -> float:
        """The seconds for this engine."""
        return self.gpu if engine is EngineKind.GPU else self.cpu


class SoftThreshold(_Strict):
    """Highest ratio of samples with a soft mismatch, per wire format."""

    openai: _Ratio
    anthropic: _Ratio | None = None


class Speculative(_Strict):
    """EAGLE speculative decoding."""

    num_steps: _Count
    eagle_topk: _Count
    draft_tokens: _Count

    def __str__(self) -> str:
        return f"EAGLE {self.num_steps}-{self.eagle_topk}-{self.draft_tokens}"


class Family(_Strict):
    """One row of the matrix."""

    model: Annotated[_Name, Field(description="the model's hub id")]
    tito_model: Annotated[_Name, Field(description=", ".join(BOUND))]
    reasoning_parser: _Name
    tool_call_parser: _Name
    micro_model: Annotated[bool, Field(description="true or false: a micro model for the CPU exists")]
    append_roles: Annotated[list[_Role], Field(min_length=1, description=f"a list out of {', '.join(Role)}")]
    failure_mode: Annotated[FailureMode, Field(strict=False, description=", ".join(FailureMode))]
    cycles: _Cycles
    max_trim_tokens: Annotated[int, Field(ge=0, description="a whole number, at least 0")]
    verify_anthropic: Annotated[bool, Field(description="true or false")]
    anthropic_intermediate_system_expectation: Annotated[
        SystemExpectation | None, Field(strict=False, description=", ".join(SystemExpectation))
    ] = None
    anthropic_opt_out: Annotated[str, Field(description="the reason, where verify_anthropic is false")] = ""
    soft_threshold: Annotated[SoftThreshold, Field(description="{ openai = ratio, anthropic = ratio }")]
    content_limit: _Ratio = 0.0
    """Highest ratio of samples in which an assistant's *content* differs; harmless formatting does not count here."""
    may_differ: Annotated[
        list[Annotated[Difference, Field(strict=False)]], Field(description=f"a list out of {', '.join(Difference)}")
    ] = Field(default_factory=list)
    """What two ways of one script may write differently into a prompt; all else that differs fails."""
    temperature: Annotated[float, Field(ge=0, description="a number, at least 0")] = 0.7
    samples: Annotated[
        SamplesByEngine,
        Field(description=f"{{ cpu = count, gpu = count }}, each at least 1 and at most {MOST_SAMPLES}"),
    ]
    context_length: Annotated[CountByEngine, Field(description="{ cpu = tokens, gpu = tokens }")]
    response_budget: Annotated[CountByEngine, Field(description="{ cpu = tokens, gpu = tokens }")]
    ready_timeout: Annotated[SecondsByEngine, Field(description="{ cpu = seconds, gpu = seconds }")]
    gpus: _Count
    tensor_parallel: _Count
    expert_parallel: _Count = 1
    speculative: Annotated[
        Speculative | None, Field(description="{ num_steps = n, eagle_topk = n, draft_tokens = n }")
    ] = None
    prefill_cuda_graph: Annotated[bool, Field(description="true or false")] = True
    deprecated: Annotated[bool, Field(description="true or false")] = False


Families = dict[str, Family]


@dataclass(frozen=True)
class FamiliesFile:
    """What a families file says: the rows that are right, the names of all rows, and every problem."""

    families: Families
    declared: tuple[str, ...] | None
    """Names of all rows, wrong ones included; None where the file could not be read that far."""
    problems: list[str]


def load_families(path: Path | None = None) -> Families:
    """Every family of the file (the package's own where None), by name, in file order.

    Raises:
        ConfigurationError: with every problem of the whole file.
    """
    file = read_families(path)
    if file.problems:
        raise ConfigurationError(file.problems)
    return file.families


def read_families(path: Path | None = None) -> FamiliesFile:
    """As `load_families`, with the problems as data, so that later stages can add theirs before anything is raised."""
    path = path or DEFAULT_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return FamiliesFile({}, None, [f"families file {path} cannot be read: {error}"])
    return parse_families(text, where=str(path))


def parse_families(text: str, *, where: str) -> FamiliesFile:
    """As `read_families`, from text. `where` names the file in the problems."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return FamiliesFile({}, None, [f"{where} is not TOML: {error}"])
    problems = [
        f"{where}: unknown top-level key {key!r}; allowed: schema_version, [family.<name>]"
        for key in document
        if key not in ("schema_version", "family")
    ]
    if document.get("schema_version") != SCHEMA_VERSION:
        problems.append(f"{where}: schema_version = {document.get('schema_version')!r}; allowed: {SCHEMA_VERSION}")
    rows = document.get("family")
    if not isinstance(rows, dict) or not rows:
        return FamiliesFile({}, None, [*problems, f"{where}: no family; write at least one [family.<name>] table"])
    families: Families = {}
    for name, row in rows.items():
        family, found = _parse_row(name, row)
        if family and not found:
            families[name] = family
        problems += [f"{where}: family {name}: {problem}" for problem in found]
    return FamiliesFile(families, tuple(rows), problems)


def _parse_row(name: str, row: object) -> tuple[Family | None, list[str]]:
    if not isinstance(row, dict):
        return None, [f"is not a table; write [family.{name}]"]
    family, found = None, list(_name_problems(name))
    try:
        family = Family.model_validate(row)
    except ValidationError as error:
        found += _field_problems(error)
    return family, [*found, *_contract_problems(row)]


def _name_problems(name: str) -> Iterator[str]:
    if name == ALL:
        yield f"{ALL!r} cannot be a name: it means every family"
    try:
        CellId(name, Lane.V1_OPENAI)
    except ValueError as error:
        yield str(error)


def _field_problems(error: ValidationError) -> Iterator[str]:
    for detail in error.errors():
        steps = [step for step in detail["loc"] if isinstance(step, str)]
        field, top = ".".join(steps), steps[0]
        if detail["type"] == "extra_forbidden":
            known = list(Family.model_fields) if len(steps) == 1 else []
            close = difflib.get_close_matches(top, known, n=1)
            yield f"unknown field {field}" + (
                f"; did you mean {close[0]}?" if close else f"; allowed: {_allowed(steps)}"
            )
        elif detail["type"] == "missing":
            yield f"{field} is missing; allowed: {_allowed(steps)}"
        else:
            yield f"{field} = {detail['input']!r}; allowed: {_allowed(steps)}"


def _allowed(steps: list[str]) -> str:
    info = Family.model_fields.get(steps[0])
    if info is None:
        return ", ".join(Family.model_fields)
    return info.description or "see runner/plan/families.py"


def _contract_problems(row: dict[str, object]) -> Iterator[str]:
    """What must hold between fields. Works on the raw row, so that one wrong field does not hide another's fault."""
    tito = row.get("tito_model")
    bound = BOUND.get(tito) if isinstance(tito, str) else None
    if isinstance(tito, str) and bound is None:
        yield f"tito_model = {tito!r}; allowed: {', '.join(BOUND)}"
    roles = row.get("append_roles")
    if isinstance(roles, list):
        yield from _role_problems(roles, row.get("failure_mode"), bound, str(tito))
    if bound:
        for field, value in (
            ("reasoning_parser", bound.reasoning_parser),
            ("tool_call_parser", bound.tool_call_parser),
            ("max_trim_tokens", bound.max_trim_tokens),
        ):
            if field in row and row[field] != value:
                yield f"{field} = {row[field]!r}; allowed: {value!r}, which tito_model {tito!r} is bound to"
    yield from _anthropic_problems(row, roles if isinstance(roles, list) else None)
    yield from _size_problems(row)


def _role_problems(roles: list[object], failure_mode: object, bound: Bound | None, tito: str) -> Iterator[str]:
    if Role.TOOL not in roles:
        yield f"append_roles = {roles!r}: the role 'tool' is needed to verify tool use; allowed: a list with 'tool'"
    if len({str(role) for role in roles}) != len(roles):
        yield f"append_roles = {roles!r}: names a role twice; allowed: each role once"
    if failure_mode == FailureMode.APPEND_USER and Role.USER not in roles:
        yield (
            "failure_mode = 'append_user' needs the role 'user' in append_roles; allowed: append_tool, rollback, or add"
            " the role"
        )
    beyond = [role for role in roles if bound and role in tuple(Role) and role not in bound.append_roles]
    if bound and beyond:
        allowed = ", ".join(role for role in Role if role in bound.append_roles)
        yield f"append_roles = {roles!r}: tito_model {tito!r} cannot append {beyond[0]!r}; allowed: {allowed}"


def _anthropic_problems(row: dict[str, object], roles: list[object] | None) -> Iterator[str]:
    verify = row.get("verify_anthropic")
    expectation = row.get("anthropic_intermediate_system_expectation")
    threshold = row.get("soft_threshold")
    has_threshold = isinstance(threshold, dict) and "anthropic" in threshold
    if verify is True:
        if expectation is None:
            yield (
                "anthropic_intermediate_system_expectation is missing, and verify_anthropic is true; allowed:"
                f" {', '.join(SystemExpectation)}, or verify_anthropic = false with anthropic_opt_out"
            )
        if isinstance(threshold, dict) and not has_threshold:
            yield "soft_threshold.anthropic is missing, and verify_anthropic is true; allowed: a ratio, 0 to 1"
        if row.get("anthropic_opt_out"):
            yield "anthropic_opt_out is given, and verify_anthropic is true; allowed: one of the two"
        if expectation == SystemExpectation.REQUIRED and roles is not None and Role.SYSTEM not in roles:
            yield (
                "anthropic_intermediate_system_expectation = 'required' needs the role 'system' in append_roles;"
                " allowed: forbidden, or add the role"
            )
    elif verify is False:
        if not row.get("anthropic_opt_out"):
            yield "anthropic_opt_out is missing, and verify_anthropic is false; allowed: the reason in words"
        if expectation is not None or has_threshold:
            yield "verify_anthropic is false, and an Anthropic expectation or threshold is given; allowed: only one"


def _size_problems(row: dict[str, object]) -> Iterator[str]:
    gpus, tensor, expert = row.get("gpus"), row.get("tensor_parallel"), row.get("expert_parallel", 1)
    if isinstance(gpus, int) and isinstance(tensor, int) and tensor > 0 and gpus % tensor:
        yield f"gpus = {gpus} cannot be shared by engines of tensor_parallel = {tensor}; allowed: a multiple of it"
    if isinstance(tensor, int) and isinstance(expert, int) and expert > 0 and tensor % expert:
        yield f"expert_parallel = {expert}; allowed: a divisor of tensor_parallel = {tensor}"
    context, budget = row.get("context_length"), row.get("response_budget")
    if isinstance(context, dict) and isinstance(budget, dict):
        for engine in EngineKind:
            have, want = context.get(engine), budget.get(engine)
            if isinstance(have, int) and isinstance(want, int) and want >= have:
                yield f"response_budget.{engine} = {want}; allowed: less than context_length.{engine} = {have}"
