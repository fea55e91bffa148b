#!/usr/bin/env bash
# Put the CPU build of torch into wheels/ when this host's pip can find it by itself (a local
# wheelhouse, a mirror). The Dockerfile installs what lies there; with an empty folder it asks
# PyTorch's CPU index instead, so finding nothing here is no error. Idempotent.
set -euo pipefail
cd "$(dirname "$0")"

version=2.13.0+cpu
shopt -s nullglob
have=(wheels/torch-"$version"-*.whl)
if ((${#have[@]})); then
  echo "torch $version: already in wheels/"
  exit 0
fi
rm -f wheels/*.whl
part=$(mktemp -d wheels/.part.XXXXXX)
trap 'rm -rf "$part"' EXIT
# --python-version and --platform: the image's, whatever Python runs this script
if python3 -m pip download --quiet --retries 1 --disable-pip-version-check --no-deps --only-binary :all: \
  --python-version 3.11 --platform manylinux_2_28_x86_64 --dest "$part" "torch==$version" >/dev/null 2>&1; then
  mv "$part"/torch-*.whl wheels/
  echo "torch $version: fetched into wheels/ by this host's pip"
else
  echo "torch $version: not known to this host's pip; the image build takes it from PyTorch's CPU index"
fi
