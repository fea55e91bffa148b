#!/bin/sh
# Builds the image on the CPU engine image of this checkout and prints its tag, which SESSION_IMAGE takes:
#   SESSION_IMAGE=$(sh images/session-server-miles/build.sh) make e2e FAMILY=qwen3 LANES=v1-openai
# ENGINE_IMAGE names another engine image; BASE_IMAGE another base (default: the offline stand-in, or python's own).
set -eu
cd "$(dirname "$0")/../.."

engine=${ENGINE_IMAGE:-}
if [ -z "$engine" ]; then
    engine=$(.venv/bin/python -m runner images | tee /dev/stderr | sed -n 's/^engine-cpu=//p')
fi
if [ -z "$engine" ]; then
    echo "the engine image is not there: see above, or name one with ENGINE_IMAGE=<image>" >&2
    exit 3
fi
base=${BASE_IMAGE:-$(docker images --format '{{.Repository}}:{{.Tag}}' tito-e2e/base | head -n 1)}
base=${base:-python:3.11-slim-bookworm}

# only what the Dockerfile copies is sent
set -- images/session-server-miles runner/__init__.py \
    runner/base/__init__.py runner/base/errors.py runner/base/terms.py \
    runner/contract/__init__.py runner/contract/arguments.py runner/contract/source.py \
    runner/contract/flow.py runner/contract/compare.py
context() { tar -c --sort=name --mtime=@0 --owner=0 --group=0 --mode=u=rwX,go=rX --exclude=__pycache__ "$@"; }
tag=tito-e2e/session-server-miles:$( (echo "$engine $base"; context "$@") | sha256sum | cut -c1-12)
if ! docker image inspect "$tag" >/dev/null 2>&1; then
    context "$@" | docker build --force-rm -t "$tag" -f images/session-server-miles/Dockerfile \
        --label io.github.tito-e2e.image=session-server-miles \
        --build-arg "BASE_IMAGE=$base" --build-arg "ENGINE_IMAGE=$engine" - >&2
fi
echo "$tag"
