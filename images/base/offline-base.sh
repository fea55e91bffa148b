#!/usr/bin/env bash
# Make a stand-in for python:3.11-slim-bookworm where no registry can be reached: Debian's own Python 3.11, apt and
# venv, straight from Debian packages, plus the extra certificate authorities of this machine (without them pip inside
# an image build fails wherever this machine needs them). It stays on this machine: never push it.
#
#   offline-base.sh SUITE TAG [LABEL=VALUE]        needs root, mmdebstrap and a Docker engine; about 100 s, 170 MB
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
suite=$1 tag=$2 label=${3:-}
for tool in mmdebstrap docker; do
  command -v "$tool" >/dev/null || { echo "offline-base.sh: $tool is not installed" >&2; exit 3; }
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch" # mmdebstrap's hooks may run as another user

authorities=$scratch/authorities
mkdir "$authorities"
if [ -d /usr/local/share/ca-certificates ]; then
  find /usr/local/share/ca-certificates -type f -name '*.crt' -exec cp -t "$authorities" {} +
fi

cat >"$scratch/finish.sh" <<'EOS'
#!/bin/sh
set -eu
root=$1 authorities=$2
mkdir -p "$root/usr/local/share/ca-certificates"
find "$authorities" -name '*.crt' -exec cp -t "$root/usr/local/share/ca-certificates" {} +
chroot "$root" update-ca-certificates >/dev/null
# `python` as in the official image; no pip beside it: our images make a virtual environment, which works on both
ln -sf /usr/bin/python3 "$root/usr/local/bin/python"
EOS
chmod 755 "$scratch/finish.sh"

changes=(
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8'
  --change 'CMD ["python3"]'
)
bundle=/etc/ssl/certs/ca-certificates.crt # pip and requests bring a bundle of their own, which lacks the extra ones
changes+=(--change "ENV SSL_CERT_FILE=$bundle PIP_CERT=$bundle REQUESTS_CA_BUNDLE=$bundle")
if [ -n "$label" ]; then changes+=(--change "LABEL $label"); fi

echo "offline-base.sh: Debian $suite -> $tag"
mmdebstrap --mode=root --variant=apt \
  --include=python3,python3-venv,ca-certificates \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --aptopt='Acquire::Languages "none"' \
  --customize-hook="$scratch/finish.sh \"\$1\" $authorities" \
  "$suite" - |
  docker import "${changes[@]}" - "$tag"
