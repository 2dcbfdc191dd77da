#!/usr/bin/env bash
# Make .venv hold what requirements/<set>.txt pins, and this package, and report what rendering needs.
# Usage: tools/setup.sh run|dev. Does nothing when everything is up to date. Never asks a question.
set -euo pipefail

set_name=${1:?usage: tools/setup.sh run|dev}
cd "$(dirname "$0")/.."
unset VIRTUAL_ENV PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1
venv_python=.venv/bin/python

say() { printf 'setup: %s\n' "$*" >&2; }
give_up() { say "$1"; shift; printf '       %s\n' "$@" >&2; exit 1; }

apt_get() {  # apt-get as root, without a question; fails when that is not possible
    command -v apt-get >/dev/null || return 1
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
        apt-get -qq -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold "$@" </dev/null >/dev/null
}

apt_install() {
    say "installing with apt: $*"
    apt_get install --no-install-recommends "$@" 2>/dev/null ||
        { apt_get update && apt_get install --no-install-recommends "$@"; }
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_venv() { new_enough "$1" && "$1" -c 'import venv, ensurepip; ensurepip.version()' 2>/dev/null; }

find_python() {  # $1: a check; prints the first interpreter that passes it
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if command -v "$candidate" >/dev/null && "$1" "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    local python version
    if ! python=$(find_python can_make_venv); then
        if [ -x /usr/bin/python3 ] && new_enough /usr/bin/python3; then
            version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
            apt_install "python$version-venv" || true
        else
            apt_install python3 python3-venv || true
        fi
        python=$(find_python can_make_venv) || give_up "no Python 3.11 or newer that can make a virtual environment" \
            "Debian, Ubuntu: apt-get install python3-venv (as root), then run make again" \
            "elsewhere: install Python 3.11 or newer, then run PYTHON=/path/to/python3 make ..."
    fi
    say "making .venv with $("$python" -V)"
    "$python" -m venv --clear .venv
}

usable_venv() {  # the scripts in .venv/bin name their folder: after a move or a copy of the repository they are wrong
    [ -x "$venv_python" ] && new_enough "$venv_python" && "$venv_python" -c 'import pip' 2>/dev/null &&
        head -n 2 .venv/bin/pip | grep -qF "$(pwd -P)/.venv/bin/"
}

identity() {  # what the installed state depends on; the folder, because an editable install points into it
    { cat "requirements/$set_name.txt" pyproject.toml; pwd; "$venv_python" -V; } | sha256sum | cut -d' ' -f1
}

renders() { MUJOCO_GL=egl "$venv_python" -c 'import mujoco; mujoco.GLContext(16, 16).free()' >/dev/null 2>&1; }

check_rendering() {  # $1: whether apt may be tried
    local libraries=(libegl1 libgl1-mesa-dri libegl-mesa0)
    [ ! -e .venv/.renders ] || return 0
    if ! renders && [ "$1" = try-apt ] && [ "$(uname)" = Linux ]; then
        apt_install "${libraries[@]}" || true
    fi
    if renders; then
        touch .venv/.renders
    else
        say "no off-screen rendering here (EGL). Missing: ${libraries[*]}"
        say "  Debian, Ubuntu: apt-get install ${libraries[*]} (as root), then run make again"
        say "  works without: locking, running arms that use no camera, scoring, analysis, report, verify"
        say "  does not: arms that see images, videos of episodes, and the tests marked gl"
    fi
}

has_node() { command -v node >/dev/null && node -e 'process.exit(Number(parseInt(process.versions.node) < 18))'; }

check_node() {  # $1: whether apt may be tried. Only the tests of the driver in JavaScript need it
    has_node && return
    if [ "$1" = try-apt ] && [ "$(uname)" = Linux ]; then
        apt_install nodejs || true
    fi
    has_node || say "no Node 18 or newer: the tests of the driver in JavaScript are skipped (apt-get install nodejs)"
}

if command -v flock >/dev/null; then
    exec 9<"$0"
    flock 9
fi
usable_venv || make_venv

stamp=.venv/.installed-$set_name
if [ "$(cat "$stamp" 2>/dev/null)" = "$(identity)" ]; then
    check_rendering no-apt
    [ "$set_name" != dev ] || check_node no-apt
    exit 0
fi
say "installing requirements/$set_name.txt (a few minutes the first time)"
"$venv_python" -m pip install --quiet --require-hashes -r "requirements/$set_name.txt"
"$venv_python" -m pip install --quiet --no-deps --no-build-isolation --no-index -e .
rm -f .venv/.installed-* .venv/.renders
identity >"$stamp"
if [ "$set_name" = dev ]; then  # dev.txt holds every pin of run.txt
    check_node try-apt
    set_name=run
    identity >.venv/.installed-run
fi
check_rendering try-apt
