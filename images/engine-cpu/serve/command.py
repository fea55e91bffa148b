"""Settings -> the engine's command line and environment. Pure: nothing is read, nothing is started.

Why these flags: on CPU SGLang needs the torch attention and sampling code (its own kernels have no build here);
`--sleep-on-idle` because an idle engine otherwise burns a core; `--disable-overlap-schedule` because overlapping
hides the latency of a device that does not exist. The memory fraction only has to be small: the size of the cache is
said in tokens.
"""

from collections.abc import Mapping

from serve.settings import Settings

MODULE = "serve.launch"

# 0.0.0.0 is right inside a container: what is published, and where, is decided outside
HOST = "0.0.0.0"  # noqa: S104

ENVIRONMENT: Mapping[str, str] = {
    "SGLANG_USE_CPU_ENGINE": "1",
    # the default model registry imports every architecture SGLang knows; see serve/served
    "SGLANG_EXTERNAL_MODEL_PACKAGE": "serve.served",
    # one thread per process: more of them fight for the cores of a small machine and make a micro model slower
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # there is no C++ compiler in the image, and importing torch's graph compiler takes seconds
    "TORCHDYNAMO_DISABLE": "1",
    # a dead child ends the engine at once; by default that waits a minute for dumps of a GPU that is not there
    "SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0",
    "SGLANG_PYSPY_DUMP_BEFORE_CRASH": "0",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}


def environment(settings: Settings) -> dict[str, str]:
    """What the engine process finds in its environment, beside what the container has."""
    return {**ENVIRONMENT, "START_METHOD": settings.start_method}


def argv(settings: Settings) -> tuple[str, ...]:
    """The arguments of SGLang's launcher, without the interpreter and the module."""
    return (
        *("--model-path", str(settings.model)),
        *("--served-model-name", settings.family),
        *("--chat-template", str(settings.model / "chat_template.jinja")),
        *("--tool-call-parser", settings.tool_call_parser),
        *("--reasoning-parser", settings.reasoning_parser),
        *("--host", HOST),
        *("--port", str(settings.port)),
        *("--device", "cpu"),
        *("--dtype", settings.dtype),
        *("--attention-backend", "torch_native"),
        *("--sampling-backend", "pytorch"),
        *("--grammar-backend", "xgrammar"),
        "--disable-overlap-schedule",
        "--sleep-on-idle",
        *("--context-length", str(settings.context_length)),
        *("--max-running-requests", str(settings.max_running_requests)),
        *("--max-total-tokens", str(settings.max_total_tokens)),
        *("--mem-fraction-static", "0.1"),
        *("--random-seed", str(settings.random_seed)),
        *("--log-level", settings.log_level),
        *settings.extra_args,
    )


def line(settings: Settings, version: str) -> str:
    """The one line that says what is being started."""
    return (
        f"engine: SGLang {version} on CPU serves {settings.model} as {settings.family!r} on {HOST}:{settings.port} "
        f"({settings.dtype}, context {settings.context_length} tokens, at most {settings.max_running_requests} "
        f"requests at a time, tool calls {settings.tool_call_parser}, reasoning {settings.reasoning_parser})"
    )
