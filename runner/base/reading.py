"""From the environment to settings, with every problem at once: values that are wrong alone, and those that contradict.

What a single value may hold stands in `runner.base.settings`; here is what is said of one that is wrong, and which
values cannot go together. What needs the families file is `runner.plan`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from runner.base.errors import ConfigurationError
from runner.base.settings import EngineKind, Settings, shown_as


def read_settings(overrides: Mapping[str, object] | None = None) -> tuple[Settings, list[str]]:
    """The settings and every problem with them, so that later stages can add theirs before anything is raised.

    A field with a problem holds its default in the returned settings. `overrides` are command line options by field
    name; they win over the environment, and None means not given.
    """
    given: dict[str, Any] = {name: value for name, value in (overrides or {}).items() if value is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        problems: list[str] = []
        bad: dict[str, Any] = {}
        for detail in error.errors():
            field = str(detail["loc"][0])
            if field in bad:
                continue
            bad[field] = Settings.model_fields[field].get_default()
            problems.append(_problem(field, detail["input"], detail["type"], detail["msg"]))
        settings = Settings(**(given | bad))
        return settings, problems + conflicts(settings, skip=set(bad))
    return settings, conflicts(settings, skip=set())


def load_settings(overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings, or one ConfigurationError with every problem that they have."""
    settings, problems = read_settings(overrides)
    if problems:
        raise ConfigurationError(problems)
    return settings


def _problem(field: str, value: object, kind: str, message: str) -> str:
    said = f": {message.removeprefix('Value error, ')}" if kind == "value_error" else ""
    return f"{field.upper()}={str(value)!r}{said}; allowed: {shown_as(field, 'allowed')}"


def conflicts(settings: Settings, skip: set[str]) -> list[str]:
    """Values that are fine alone and contradict each other. Fields in `skip` have a problem of their own."""
    problems = []
    if settings.gpus and settings.engine is not EngineKind.GPU and not skip & {"gpus", "engine"}:
        shown = ",".join(map(str, settings.gpus))
        problems.append(
            f"GPUS={shown!r} is for ENGINE=gpu, and ENGINE is {settings.engine.value!r}; set ENGINE=gpu or unset GPUS"
        )
    if settings.leases and settings.engine is EngineKind.GPU and not skip & {"leases", "engine"}:
        problems.append(
            f"LEASES={str(settings.leases)!r}: with ENGINE=gpu the devices decide how many run; name them with GPUS"
        )
    problems += _target_conflicts(settings, skip)
    if settings.compose_override is not None and not settings.compose_override.is_file():
        problems.append(f"COMPOSE_OVERRIDE={str(settings.compose_override)!r}: there is no such file")
    for cell in settings.cell:
        for field, part, named in (
            ("family", cell.family, settings.family),
            ("lanes", cell.lane, settings.lanes),
            ("scenarios", cell.scenario, settings.scenarios),
        ):
            if field not in skip and settings.named(field) and part not in named:
                problems.append(
                    f"CELL={str(cell)!r} is outside {field.upper()}={','.join(named)!r}; CELL alone is enough, unset"
                    f" {field.upper()}"
                )
    return problems


_STARTING = (
    "engine_image",
    "session_image",
    "gpus",
    "workers",
    "session_server_port",
    "on_infra",
    "compose_override",
    "keep",
)
"""Variables about servers that are started, which say nothing where they already run."""


def _target_conflicts(settings: Settings, skip: set[str]) -> list[str]:
    """What contradicts itself about servers that already run."""
    urls = ("engine_url", "session_v1_url", "session_v2_url")
    if skip & {*urls, "tokenizer"}:
        return []
    problems = []
    given = [name.upper() for name in urls if name in settings.model_fields_set]
    if given == ["ENGINE_URL"]:
        problems.append("ENGINE_URL names no session server to verify; set SESSION_V1_URL or SESSION_V2_URL as well")
    if given and settings.tokenizer is None:
        problems.append(f"{given[0]} needs TOKENIZER, the directory with the tokenizer that these servers use")
    if settings.tokenizer is not None and not given:
        problems.append("TOKENIZER is for servers that already run; set SESSION_V1_URL or SESSION_V2_URL, or unset it")
    if settings.tokenizer is not None and not (settings.tokenizer / "tokenizer.json").is_file():
        problems.append(f"TOKENIZER={str(settings.tokenizer)!r}: there is no tokenizer.json in it")
    if given:
        problems += [
            f"{name.upper()} is about servers that are started, and {given[0]} names one that already runs; unset one"
            for name in _STARTING
            if name in settings.model_fields_set - skip
        ]
    return problems
