"""From a planned lease to a Compose project: which variables compose.yaml gets, and where the run's files lie."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from runner.base.settings import EngineKind, Settings
from runner.ground.pin import pinned_sglang
from runner.plan.model import Plan, PlannedLease
from runner.stack import override
from runner.verdict.artifacts import VARIABLES_NAME

ROOT = Path(__file__).resolve().parents[2]
"""The repository: compose.yaml and the image contexts are there."""

IMAGES = ("engine-cpu", "session-server", "runner")

_ENGINES = {EngineKind.CPU: "engine-cpu", EngineKind.SCRIPTED: "scripted-engine"}
"""The images of engines that are built here."""

IMAGE_VARIABLES = {
    "engine": "TITO_ENGINE_IMAGE",
    "session": "TITO_SESSION_IMAGE",
    "runner": "TITO_RUNNER_IMAGE",
}
"""Image kind -> the variable of compose.yaml that names it."""

_PORTS = {"session-v1": "TITO_SESSION_V1_PORTS", "session-v2": "TITO_SESSION_V2_PORTS"}
"""The variables of compose.yaml that hold a range of ports; unset, Docker chooses."""

GPU_IMAGE = "lmsysorg/sglang"
"""The official engine image."""

OWN_OVERRIDE = "compose.override.yaml"
"""The copy of COMPOSE_OVERRIDE in the artifacts of a lease."""

ENV_NAME = VARIABLES_NAME
"""The file of a lease, in the artifacts, that holds its Compose variables."""


def project_name(run_id: str, family: str) -> str:
    """One Compose project per lease."""
    return f"tito-{run_id}-{family}".replace(".", "_").lower()


def needed_images(settings: Settings) -> list[str]:
    """The images that must be built here: not those that the user replaces, and no engine for GPUs."""
    engine = None if settings.engine_image else _ENGINES.get(settings.engine)
    session = None if settings.session_image else "session-server"
    return [name for name in (engine, session, "runner") if name]


def image_references(settings: Settings, built: Mapping[str, str]) -> dict[str, str]:
    """Compose service kind (`engine`, `session`, `runner`) -> image reference."""
    engine = _ENGINES.get(settings.engine)
    return {
        "engine": settings.engine_image or (built[engine] if engine else gpu_image()),
        "session": settings.session_image or built["session-server"],
        "runner": built["runner"],
    }


def gpu_image() -> str:
    """The official image at the version that the CPU engine pins. Raises InfrastructureError without that pin."""
    return f"{GPU_IMAGE}:v{pinned_sglang(ROOT)}"


def compose_variables(
    plan: Plan, lease: PlannedLease, images: Mapping[str, str], *, lock: Path, keep: bool
) -> dict[str, str]:
    """All variables that compose.yaml reads for this lease; written to the artifacts so that it can be repeated."""
    return {
        "TITO_RUN_ID": plan.run_id,
        "TITO_FAMILY": lease.family,
        **ownership(lock, keep=keep),
        **{variable: images[kind] for kind, variable in IMAGE_VARIABLES.items()},
        "TITO_MODEL": lease.model,
        "TITO_TOKENIZER": lease.tokenizer,
        "TITO_TITO_MODEL": lease.tito_model,
        "TITO_REASONING_PARSER": lease.reasoning_parser,
        "TITO_TOOL_CALL_PARSER": lease.tool_call_parser,
        "TITO_CONTEXT_LENGTH": str(lease.context_length),
        "TITO_WORKERS": str(lease.workers),
        **{_PORTS[service]: _range(*ports) for service, ports in lease.ports.items()},
        **(override.VARIABLES if lease.engine is EngineKind.GPU else {}),
    }


def _range(first: int, last: int) -> str:
    """As Compose takes it; of one port without an end, since Docker names it only then in every one of its errors."""
    return str(first) if first == last else f"{first}-{last}"


def ownership(lock: Path, *, keep: bool) -> dict[str, str]:
    """The variables by which a sweep finds out whether the owner of a run still lives."""
    return {"TITO_LOCK": str(lock), "TITO_HOST": platform.node(), "TITO_KEEP": "1" if keep else "0"}
