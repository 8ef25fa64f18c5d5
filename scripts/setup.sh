#!/bin/sh
# Sets up a fresh machine: system packages (if this is root on Debian or Ubuntu), and a Python
# environment in target/venv.
. "$(dirname "$0")/common.sh"

# Debian packages that are missing.
missing=
need build-essential cc --version
need build-essential c++ --version
need pkg-config pkg-config --version
need libhwloc-dev pkg-config --atleast-version=2.0.0 hwloc
need libudev-dev pkg-config --exists libudev
need python3 python3 --version
need python3-venv python3 -c 'import ensurepip, venv'
need python3-dev python3 -c '
import os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))'
# shellcheck disable=SC2086 # a list
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ' | sed 's/^ *//; s/ *$//')
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "system packages: installing $missing"
        export DEBIAN_FRONTEND=noninteractive
        step apt-update apt-get update
        # shellcheck disable=SC2086 # a list
        step apt-install apt-get install -y --no-install-recommends $missing
    else
        fail "these system packages (Debian's names) are missing: $missing
   install them (sudo apt-get install $missing) and start again"
    fi
else
    say "system packages: all there"
fi

# valgrind counts instructions for one test (tests/tests/instructions.rs), which says so when it is
# skipped; nothing else needs it, and not every machine has it.
if ! command -v valgrind >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends valgrind; } \
        >"$LOGS/apt-valgrind.log" 2>&1 </dev/null || true
fi
if command -v valgrind >/dev/null; then
    say "$(valgrind --version)"
else
    say "valgrind: not there, and cannot be installed here: the test of instruction counts will be skipped"
fi

# The test of `mica top` in a terminal (tests/tests/top.rs) says so when it is skipped.
if ! command -v tmux >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends tmux; } \
        >"$LOGS/apt-tmux.log" 2>&1 </dev/null || true
fi
command -v tmux >/dev/null || say "tmux: not there, and cannot be installed here: the test of mica top in a terminal will be skipped"

# What the tests of jobs over several nodes use: the network library, two network namespaces, a Slurm of one machine. Mica needs
# none of it to build, nor to run on one node; the tests say so when one is missing.
several_nodes() {
    missing=
    need libfabric1 sh -c 'ldconfig -p | grep -q libfabric.so.1'
    need libpmix2 sh -c 'ldconfig -p | grep -q libpmix.so.2'
    # Slurm's plugin loads it by the name that this package has.
    need libpmix-dev sh -c 'ls /usr/lib/*/pmix2/lib/libpmix.so'
    need iproute2 ip -V
    need util-linux unshare --version
    need slurm-wlm sh -c 'command -v srun && command -v slurmctld && command -v slurmd'
    need munge munged --version
    need openssh-client ssh -V
    need openssh-server sh -c "command -v sshd || test -x /usr/sbin/sshd"
    echo "$missing"
}
missing=$(several_nodes)
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list
    { apt-get update && apt-get install -y --no-install-recommends $missing; } \
        >"$LOGS/apt-several-nodes.log" 2>&1 </dev/null || true
    missing=$(several_nodes)
fi
if [ -n "$missing" ]; then
    say "for tests of several nodes:$missing not there, and cannot be installed here"
else
    say "for tests of several nodes: all there"
fi

# One test opens the page of `mica profile` in a browser, and says so when there is none.
browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}
if ! browser >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends chromium; } \
        >"$LOGS/apt-browser.log" 2>&1 </dev/null || true
fi
if browser >/dev/null; then
    say "browser: $(browser)"
else
    say "chromium: not there, and cannot be installed here: no browser opens the page of mica profile"
fi

if ! command -v cargo >/dev/null; then
    fail "there is no Rust: install it from https://rustup.rs and start again"
fi
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
have=$(rustc --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -n 1)" != "$wanted" ]; then
    fail "Rust $wanted or newer is needed, this is $have: run \`rustup update stable\` and start again"
fi
say "Rust $have"

# The environment is made anew when the list of packages or the Python changes.
stamp=$VENV/.requirements
wanted=$(python3 --version; cat scripts/requirements.txt bindings/requirements.txt)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    rm -rf "$VENV"
    step venv python3 -m venv "$VENV"
    step pip "$VENV/bin/pip" install --disable-pip-version-check \
        -r scripts/requirements.txt -r bindings/requirements.txt
    printf '%s\n' "$wanted" >"$stamp"
else
    say "Python environment: up to date"
fi
