"""The engine's settings, read from the environment; every problem is found before SGLang spends time on importing.

Model facts (tokenizer, template, weights) are not settings: they lie in `<models>/<family>`, and are checked here only
for being there and for fitting the settings.
"""

import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

# what an engine needs of a model directory, and what the session servers read from the same one
MODEL_FILES = (
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)

# flags that this package chooses itself; EXTRA_ARGS may not say them a second time, as the last one would win silently
OWN_FLAGS = (
    "--attention-backend",
    "--chat-template",
    "--context-length",
    "--device",
    "--dtype",
    "--host",
    "--log-level",
    "--max-running-requests",
    "--max-total-tokens",
    "--model",
    "--model-path",
    "--port",
    "--random-seed",
    "--reasoning-parser",
    "--served-model-name",
    "--tool-call-parser",
)


def _words(value: object) -> object:
    """Split a command line as a shell would."""
    return tuple(shlex.split(value)) if isinstance(value, str) else value


class Settings(BaseSettings):
    """What an engine container can be told. Field names in capitals are the environment variables."""

    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True, extra="ignore")

    family: str = Field(
        default="qwen3",
        pattern=r"^[a-z0-9][a-z0-9_]*$",
        description="Model family: the model is served from <MODELS>/<FAMILY>, under this name.",
    )
    models: Path = Field(default=Path("/models"), description="Directory that holds one directory per family.")
    tool_call_parser: str = Field(
        default="qwen25", min_length=1, description="SGLang's parser of the family's tool-call syntax."
    )
    reasoning_parser: str = Field(
        default="qwen3", min_length=1, description="SGLang's parser of the family's thinking part."
    )
    context_length: int = Field(default=8192, ge=64, description="Longest prompt plus answer, tokens.")
    max_running_requests: int = Field(default=16, ge=1, le=256, description="Requests generated at the same time.")
    max_total_tokens: int = Field(default=65536, ge=64, description="Size of the key-value cache, tokens.")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32",
        description="Number type of weights and cache. float32 is what makes a scoring replay comparable on CPU.",
    )
    random_seed: int = Field(
        default=42,
        ge=0,
        lt=2**31,
        description="Seed of the engine: the same requests, one at a time, give the same output after a restart.",
    )
    port: int = Field(default=30000, ge=1, le=65535, description="Port inside the container.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="SGLang's log level.")
    start_method: Literal["fork", "spawn"] = Field(
        default="fork", description="How SGLang's child processes come to be: fork starts faster (see launch.py)."
    )
    extra_args: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)] = Field(
        default=(), description="Further SGLang flags, split as a shell would."
    )

    @property
    def model(self) -> Path:
        """Directory of the served model."""
        return self.models / self.family


class BadSettingsError(Exception):
    """The settings can not be served; holds every problem found, one sentence each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        return f"the engine can not start with these settings:\n{lines}"


def load() -> Settings:
    """Read the settings from the environment and compare them with the model on disk.

    Raises:
        BadSettingsError: With every problem, not only the first.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        raise BadSettingsError(
            tuple(
                f"{'.'.join(str(part) for part in problem['loc']).upper()}={problem['input']!r}: {problem['msg']}"
                for problem in error.errors()
            )
        ) from None
    found = problems(settings)
    if found:
        raise BadSettingsError(found)
    return settings


def problems(settings: Settings) -> tuple[str, ...]:
    """What is wrong with settings that are well-formed: clashing flags, a missing or unfitting model."""
    found = [
        f"EXTRA_ARGS: {flag} is set by this image itself; use its own variable"
        for flag in sorted({word.partition("=")[0] for word in settings.extra_args} & set(OWN_FLAGS))
    ]
    if settings.max_total_tokens < settings.context_length:
        found.append(
            f"MAX_TOTAL_TOKENS={settings.max_total_tokens}: smaller than CONTEXT_LENGTH={settings.context_length}, "
            "so that one long request could never be served"
        )
    if not settings.model.is_dir():
        known = sorted(path.parent.name for path in settings.models.glob("*/config.json"))
        found.append(
            f"FAMILY={settings.family}: no directory {settings.model}; "
            f"this image has {', '.join(known) if known else 'no models at all'}"
        )
        return tuple(found)
    absent = [name for name in MODEL_FILES if not (settings.model / name).is_file()]
    if absent:
        found.append(f"FAMILY={settings.family}: {settings.model} lacks {', '.join(absent)}")
    if "config.json" not in absent:
        found.extend(_config_problems(settings))
    return tuple(found)


def _config_problems(settings: Settings) -> list[str]:
    path = settings.model / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        longest = int(config["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"FAMILY={settings.family}: {path} can not be used: {type(error).__name__}: {error}"]
    if settings.context_length > longest:
        return [f"CONTEXT_LENGTH={settings.context_length}: the model was made for at most {longest} tokens"]
    return []
