#!/bin/sh
# usage: venv.sh LOCKFILE
# Makes .venv hold what LOCKFILE pins, and says what it does. Does nothing where that was done before.
# Shell, because it runs before there is a Python environment to run anything else in.
set -eu
cd "$(dirname "$0")/../.."
lock=$1
stamp=.venv/.installed-$(basename "$lock")

say() { echo "setup: $*" >&2; }
fail() { echo "setup: $1" >&2; echo "  -> $2" >&2; exit 3; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then command -v "$candidate"; return 0; fi
    done
    return 1
}
can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_install() {
    say "installing $* with apt-get"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

if command -v flock >/dev/null && [ -z "${TITO_VENV_LOCKED:-}" ]; then
    mkdir -p .cache
    TITO_VENV_LOCKED=1 exec flock .cache/venv.lock sh "$0" "$lock"
fi

want=$(cksum <"$lock")
[ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && exit 0

if ! [ -x .venv/bin/python ]; then
    python=$(find_python) || {
        can_apt || fail "Python 3.11 or newer is needed and was not found" \
            "install it (Debian/Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.12 ..."
        apt_install python3 python3-venv
        python=$(find_python) || fail "this system's python3 is older than 3.11" "name a newer one: make PYTHON=/path/to/python3.12 ..."
    }
    say "creating .venv with $python ($("$python" -V 2>&1))"
    if ! "$python" -m venv .venv 2>.cache/venv.log; then
        rm -rf .venv
        can_apt || fail "$python cannot make a virtual environment: $(tail -n 1 .cache/venv.log)" "apt-get install python3-venv"
        apt_install python3-venv
        "$python" -m venv .venv
    fi
fi

say "installing $(grep -c '==' "$lock") pinned packages from $lock (once; about a minute)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: -r "$lock" >.cache/pip.log 2>&1 ||
    fail "pip failed: $(tail -n 5 .cache/pip.log)" "see .cache/pip.log; behind a proxy set HTTPS_PROXY or pip's own configuration, then run the same command again"
echo "$want" >"$stamp"
