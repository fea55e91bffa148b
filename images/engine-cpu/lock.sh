#!/usr/bin/env bash
# Write requirements.lock anew from requirements.in and requirements-alone.in: every package of the
# image except torch, with exact version and hashes. Needs `uv`. Run it after changing either file.
set -euo pipefail
cd "$(dirname "$0")"

no_torch=$(mktemp)
trap 'rm -f "$no_torch"' EXIT
# a marker that is never true: torch is dropped from the resolution, its dependencies are listed by hand
echo "torch ; python_version < '3'" >"$no_torch"

compile() {
  uv pip compile --quiet --no-header --no-annotate --generate-hashes \
    --python-version 3.11 --python-platform x86_64-manylinux_2_36 "$@"
}

{
  echo "# Written by lock.sh; do not edit. Every package of the image except torch."
  echo "# Installed with --no-deps --require-hashes."
  compile requirements.in --override "$no_torch"
  compile requirements-alone.in --no-deps
} >requirements.lock.new
mv requirements.lock.new requirements.lock
echo "requirements.lock: $(grep -c '==' requirements.lock) packages"
