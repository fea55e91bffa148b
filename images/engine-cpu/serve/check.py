"""Do the stubs carry all that the installed SGLang asks of them? Answered at build time, remembered for the start.

The full check imports the modules that the engine's processes import, which takes seconds; it runs while the image is
built and leaves a seal: the versions and the digest of the stubs it was true for. At every start only the seal is
compared, which takes milliseconds. An image whose SGLang or stubs were replaced afterwards does not start.
"""

import hashlib
import importlib
import json
import os
import traceback
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

import placeholder

SEAL = Path(__file__).resolve().parent.parent / "stubs.seal"
STUBS = Path(placeholder.__file__).resolve().parent

# one entry point per engine process, and what the engine loads by name later on
MODULES = (
    "sglang.launch_server",
    "sglang.srt.entrypoints.http_server",
    "sglang.srt.managers.scheduler",
    "sglang.srt.managers.detokenizer_manager",
    "sglang.srt.layers.attention.torch_native_backend",
    "sglang.srt.constrained.xgrammar_backend",
    "sglang.srt.models.registry",
    "serve.served.qwen3",
)


class StubMismatchError(Exception):
    """An import failed, or the seal does not fit what is installed."""


def full(modules: tuple[str, ...] = MODULES) -> None:
    """Import everything the engine needs at start.

    Raises:
        StubMismatchError: Names the missing module or attribute, and the file and line that asked for it.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise StubMismatchError(explain(module, error)) from error


def explain(module: str, error: Exception) -> str:
    """Say what an import of `module` lacked, and who asked."""
    wanted = error.name if isinstance(error, ImportError) and error.name else ""
    stubs = [name for name in placeholder.STUBS if wanted.partition(".")[0] == name or f"stub of {name}" in str(error)]
    if stubs:
        subject = f"the stub {stubs[0]!r} is too small for SGLang {version('sglang')}"
        remedy = f"add what is missing to images/engine-cpu/stubs/{stubs[0]}"
    else:
        subject = f"{module} can not be imported"
        remedy = "a package may be missing from requirements.in, or be of the wrong version"
    asker = _asker(error.__traceback__)
    return f"{subject}: {error}\n  asked for by {asker} while importing {module}\n  {remedy}"


def _asker(trace: TracebackType | None) -> str:
    """File and line of the last frame that is neither ours nor the import system's."""
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if "importlib" not in frame.filename and not frame.filename.startswith(str(STUBS))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"


def fingerprint() -> dict[str, str]:
    """What the check depends on: versions of SGLang and torch, digest of the stubs' source."""
    digest = hashlib.sha256()
    for path in sorted(STUBS.rglob("*.py")):
        digest.update(str(path.relative_to(STUBS)).encode())
        digest.update(path.read_bytes())
    return {"sglang": version("sglang"), "torch": version("torch"), "stubs": digest.hexdigest()}


def seal() -> None:
    """Write down what the full check was true for."""
    SEAL.write_text(json.dumps(fingerprint(), indent=2) + os.linesep, encoding="utf-8")


def quick() -> None:
    """Compare the seal with what is installed now.

    Raises:
        StubMismatchError: No seal, or it was made for something else.
    """
    again = "run `python -m serve check`"
    try:
        sealed = json.loads(SEAL.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StubMismatchError(f"the stubs were never checked in this image ({SEAL}: {error}); {again}") from None
    now = fingerprint()
    changed = [f"{key} was {sealed.get(key)}, is {now[key]}" for key in now if sealed.get(key) != now[key]]
    if changed:
        raise StubMismatchError(f"the stubs were checked for something else: {'; '.join(changed)}; {again}")
