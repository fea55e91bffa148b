#!/bin/sh
# Pins all dependencies again, with hashes: requirements.lock (what runs) and requirements-dev.lock (and what tests it).
set -eu
cd "$(dirname "$0")/../.."

compile() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-emit-index-url --no-annotate "$@"
}
compile pyproject.toml -o requirements.lock
compile pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
