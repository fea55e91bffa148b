"""The package's layers import in one direction, and only one module touches the tokenizer package."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

LAYERS = ["settings", "observe", "core", "tito", "engine", "wire", "samples", "app"]
ALLOWED = {("session_server.settings", "session_server.tito.families")}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("session_server", include_external_packages=True, cache_dir=None)


def layer(module: str) -> int | None:
    parts = module.split(".")
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else None


def test_layers_import_only_to_their_left(graph: grimp.ImportGraph) -> None:
    assert len(graph.modules) > 50
    wrong = []
    for module in graph.modules:
        own = layer(module)
        for imported in graph.find_modules_directly_imported_by(module):
            other = layer(imported) if imported.startswith("session_server") else None
            if own is not None and other is not None and other > own and (module, imported) not in ALLOWED:
                wrong.append(f"{module} -> {imported}")
    assert wrong == []


def test_the_state_machines_know_no_http_and_no_tokenizer(graph: grimp.ImportGraph) -> None:
    external = {
        "fastapi",
        "starlette",
        "uvicorn",
        "h11",
        "httptools",
        "transformers",
        "tokenizers",
        "jinja2",
        "asyncio",
    }
    for module in graph.modules:
        if module.startswith("session_server.core"):
            assert not graph.find_modules_directly_imported_by(module) & external, module


def test_one_module_wraps_the_tokenizer_package(graph: grimp.ImportGraph) -> None:
    assert graph.find_modules_that_directly_import("miles_tito_tokenizers") == {"session_server.tito.package"}


def test_files_stay_small() -> None:
    import session_server

    root = Path(session_server.__file__).parent
    assert {str(p): n for p in root.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400} == {}
