"""The one settings object: every value the server reads, from the environment, with its documentation.

Nothing else in the package looks at `os.environ`, and no value has a second default anywhere. A name that is unknown or
missing is a start-up error, and all problems are reported at once, so that a typing error never runs as a default.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, HttpUrl, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from session_server.tito.families import find

PREFIX = "SESSION_SERVER_"


class SettingsError(Exception):
    """The environment does not describe a server; the message lists every problem."""


class CoreVersion(StrEnum):
    """Which state machine keeps a session: `v1` one line with one-step rollback, `v2` a tree."""

    V1 = "v1"
    V2 = "v2"


class LogLevel(StrEnum):
    """Least severe level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _json_object(value: object) -> object:
    """A JSON object given as text; other problems with it are pydantic's to name."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from error


class Settings(BaseSettings):
    """Everything the server can be told. Each field is the environment variable `SESSION_SERVER_<NAME>`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, env_ignore_empty=False, allow_inf_nan=False
    )

    # What it serves
    engine_url: HttpUrl = Field(description="Base URL of the SGLang server or router, e.g. http://engine:30000.")
    core_version: CoreVersion = Field(description="v1 (one line per session) or v2 (a tree per session).")
    tokenizer_path: Path = Field(description="Directory with the checkpoint's tokenizer and config.json.")
    tito_model: str = Field(description="Model family whose template and joining rules are used, e.g. qwen3.")
    chat_template_path: Path | None = Field(
        default=None,
        description="Chat template that replaces the checkpoint's; only with tito_model=default, "
        "since a named family decides its template.",
    )
    chat_template_kwargs: Annotated[dict[str, Any], NoDecode, BeforeValidator(_json_object)] = Field(
        default_factory=dict, description="Default template arguments, a JSON object; requests may override them."
    )
    trust_remote_code: bool = Field(default=False, description="Let the tokenizer directory bring Python code.")
    matcher: str = Field(
        default="strict",
        description="How a replayed message is compared with the stored one: strict, loose_tool_call, "
        "role_content_only, or package.module:function (stored, replayed) -> bool.",
    )
    strict_tools: bool = Field(
        default=True,
        description='Send "strict": true with every function tool that does not say otherwise, so that the engine '
        "enforces the schema of the arguments. The prompt shows the tools as the client sent them.",
    )
    lora_path: str | None = Field(default=None, description="LoRA adapter name that every generation asks for.")
    routed_experts: bool = Field(default=False, description="Ask the engine for routed experts of every token.")
    routed_experts_from_checkpoint: bool = Field(
        default=False,
        description="Ask for routed experts only from the last stored token on; the rows of all turns then tile.",
    )
    indexer_topk: bool = Field(default=False, description="Ask the engine for the indexer's top-k of every token.")
    sample_picker: str = Field(
        default="drop_superseded",
        description="v2: which leaves become samples: drop_superseded, drop_retries (only a leaf's own parent is "
        "looked at), keep_all, or package.module:function.",
    )
    sample_postprocessor: str = Field(
        default="share_once",
        description="v2: what is done to the picked samples: share_once or package.module:function.",
    )
    sample_messages: bool = Field(default=False, description="Put the last turn's messages into a sample's metadata.")

    # Where it listens
    host: str = Field(default="0.0.0.0", description="Address to bind.")  # noqa: S104 - a container's own network
    port: int = Field(default=8080, ge=0, le=65535, description="Port to bind; 0 lets the system choose.")
    instance_id: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        description="Name of this process in /health and in the logs; each replica needs its own.",
    )

    # The engine
    engine_timeout_seconds: float = Field(default=600.0, gt=0, description="Longest wait for one generation.")
    engine_connect_timeout_seconds: float = Field(default=10.0, gt=0, description="Longest wait for a connection.")
    engine_max_connections: int = Field(default=1024, ge=1, description="Connections kept towards the engine.")
    engine_api_key: SecretStr | None = Field(default=None, description="Sent to the engine as a bearer token.")
    forward_credentials: bool = Field(
        default=False, description="Forward the client's Authorization, X-Api-Key and Cookie headers to the engine."
    )
    ready_timeout_seconds: float = Field(default=30.0, gt=0, description="Longest wait for the probe behind /ready.")

    # Limits
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024, description="Largest request body, in bytes.")
    max_sessions: int = Field(default=4096, ge=1, description="Sessions alive at once; more are refused with 429.")
    max_nodes_per_session: int = Field(
        default=1024, ge=1, description="Generations kept per session; more are refused with 409."
    )
    session_idle_seconds: float = Field(
        default=3600.0, gt=0, description="A session without a request for this long, and none in flight, is removed."
    )
    shutdown_grace_seconds: float = Field(
        default=30.0, ge=0, description="After SIGTERM, how long turns in flight may take to finish."
    )

    # What it says
    log_level: LogLevel = Field(default=LogLevel.INFO, description="debug, info, warning or error; JSON lines.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment only: a stray .env file or secrets directory must not configure a server."""
        return init_settings, env_settings

    @field_validator("tito_model")
    @classmethod
    def _family_is_known(cls, name: str) -> str:
        find(name)
        return name

    @model_validator(mode="after")
    def _fields_agree(self) -> Settings:
        if self.chat_template_path is not None and self.tito_model != "default":
            raise ValueError(
                f"{PREFIX}CHAT_TEMPLATE_PATH is set but {PREFIX}TITO_MODEL={self.tito_model} decides its own template; "
                f"unset it, or use {PREFIX}TITO_MODEL=default"
            )
        if self.routed_experts_from_checkpoint and not self.routed_experts:
            raise ValueError(f"{PREFIX}ROUTED_EXPERTS_FROM_CHECKPOINT needs {PREFIX}ROUTED_EXPERTS=true")
        return self


def variable(field: str) -> str:
    """Environment variable that sets `field`."""
    return PREFIX + field.upper()


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from the environment.

    Raises:
        SettingsError: with one line per unknown variable, missing field and bad value.
    """
    names = os.environ if environ is None else environ
    known = {variable(name) for name in Settings.model_fields}
    problems = [
        f"{name}: unknown setting; --help lists the known ones"
        for name in sorted(names)
        if name.upper().startswith(PREFIX) and name.upper() not in known
    ]
    try:
        settings = Settings()
    except ValidationError as error:
        problems += [_problem(dict(item)) for item in error.errors(include_url=False)]
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _problem(item: dict[str, Any]) -> str:
    field = str(item["loc"][0]) if item["loc"] else ""
    name = variable(field) if field in Settings.model_fields else field
    if item["type"] == "missing":
        return f"{name}: required, not set. {Settings.model_fields[field].description}"
    message = str(item["msg"]).removeprefix("Value error, ")
    if not name:
        return message
    shown = "" if name.endswith(("_KEY", "_TOKEN")) else f" (got {item['input']!r})"
    return f"{name}: {message}{shown}"


def describe() -> str:
    """All settings as text, for `--help`."""
    lines = ["Settings, each an environment variable:", ""]
    for name, info in Settings.model_fields.items():
        if info.is_required():
            default = "required"
        elif info.default is PydanticUndefined:
            default = "default: host name" if name == "instance_id" else "default: {}"
        else:
            value = info.default.value if isinstance(info.default, StrEnum) else info.default
            default = "default: not set" if value is None else f"default: {value}"
        lines += [f"  {variable(name)}  ({default})", f"      {info.description}"]
    return "\n".join(lines)
