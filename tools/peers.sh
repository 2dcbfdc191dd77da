#!/usr/bin/env bash
# Make .peers/<name> hold what requirements/peer-<name>.txt pins: programs of others that tests and benchmarks talk to.
# Each has its own environment, because they want other versions than we do. Does nothing when all is up to date.
set -euo pipefail

cd "$(dirname "$0")/.."
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf 'peers: %s\n' "$*" >&2; }

build() {  # $1: name of the peer
    local folder=.peers/$1 pins=requirements/peer-$1.txt identity
    identity=$({ cat "$pins"; pwd; .venv/bin/python -V; } | sha256sum | cut -d' ' -f1)
    [ "$(cat "$folder/.installed" 2>/dev/null)" != "$identity" ] || return 0
    say "installing $pins into $folder (half a minute)"
    .venv/bin/python -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --only-binary :all: --require-hashes -r "$pins"
    printf '%s\n' "$identity" >"$folder/.installed"
}

if command -v flock >/dev/null; then
    exec 9<"$0"
    flock 9
fi
for pins in requirements/peer-*.txt; do
    name=${pins#requirements/peer-}
    build "${name%.txt}"
done
