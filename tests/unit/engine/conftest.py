"""The engine image's own package, imported from where it lies; SGLang and torch are not needed for it."""

import importlib.util
import sys
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parents[3] / "images" / "engine-cpu"
STUBS = ENGINE / "stubs"

if str(ENGINE) not in sys.path:
    sys.path.insert(0, str(ENGINE))

# The stubs' folder itself must not be on this process's path: other tests import transformers, which would take the
# stub of torchvision for the real one. The one module of it that `serve` imports is loaded by file.
if "placeholder" not in sys.modules:
    spec = importlib.util.spec_from_file_location("placeholder", STUBS / "placeholder.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{STUBS}/placeholder.py can not be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules["placeholder"] = module
    spec.loader.exec_module(module)


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine that runs the tests reaches the engine's settings."""
    from serve.settings import Settings

    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A models directory with one family whose files are all there; only config.json has content that matters."""
    from serve.settings import MODEL_FILES

    family = tmp_path / "models" / "qwen3"
    family.mkdir(parents=True)
    for name in MODEL_FILES:
        (family / name).write_text("{}", encoding="utf-8")
    (family / "config.json").write_text('{"max_position_embeddings": 8192}', encoding="utf-8")
    return family.parent
