#!/bin/sh
# setup.sh [PURPOSE...]: looks for what the purposes need, in a second if all is there; gets what is missing if this is root on Debian or
# Ubuntu, or says in one line what to type. build: compiles and installs. lint: `make lint`. test: `make test`, `make run`. python: the
# environment of those two, in target/venv. All of these without an argument. deb: `make deb`. root: `make deb-test`.
. "$(dirname "$0")/common.sh"

[ $# != 0 ] || set -- build lint test python

[ -w "$LOGS" ] || fail "cannot write to $LOGS: name another directory to build in, as in 'make install MICA_BUILD=/var/tmp/mica'"

# Debian packages, and the command that works where what they bring is there: must, what nothing works without; may, what some
# tests and tools use, which say so where it is missing.
packages() {
    must build-essential cc --version
    must build-essential c++ --version
    must binutils readelf --version
    must pkg-config pkg-config --version
    must libhwloc-dev pkg-config --atleast-version=2.0.0 hwloc
    # Of Debian's hwloc, so asked for together with it; others do without.
    must libudev-dev sh -c 'pkg-config --exists libudev || { pkg-config --exists hwloc && ! pkg-config --static --libs hwloc | grep -q -e -ludev; }'
    command -v cargo >/dev/null || must curl curl --version
    for purpose in "$@"; do
        case $purpose in
            build | python) ;;
            lint)
                must git git --version
                may shellcheck shellcheck --version
                ;;
            test) for_tests ;;
            deb)
                must debhelper sh -c 'command -v dh'
                must dpkg-dev dpkg-buildpackage --version
                must chrpath chrpath --version
                ;;
            root)
                must debootstrap debootstrap --version
                must util-linux unshare --version
                ;;
            *) fail "setup.sh: '$purpose' is none of build, lint, test, python, deb, root" ;;
        esac
    done
}
for_tests() {
    must git git --version
    must python3 python3 --version
    must python3-venv python3 -c 'import ensurepip, venv'
    must python3-dev python3 -c '
import os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))'
    # Instruction counts, mica top in a terminal, mica profile's page in a browser, mica sim, stacks of what hangs.
    may valgrind valgrind --version
    may tmux tmux -V
    may chromium sh -c 'command -v chromium || command -v chromium-browser || command -v google-chrome'
    may qemu-user qemu-x86_64 --version
    may gdb gdb --version
    # Jobs over several nodes: the network library, network namespaces, a Slurm of one machine, which loads libpmix.so by that name.
    may libfabric1 sh -c 'ldconfig -p | grep -q libfabric.so.1'
    may libpmix2 sh -c 'ldconfig -p | grep -q libpmix.so.2'
    may libpmix-dev sh -c 'ls /usr/lib/*/pmix2/lib/libpmix.so'
    may iproute2 ip -V
    may util-linux unshare --version
    may slurm-wlm sh -c 'command -v srun && command -v slurmctld && command -v slurmd'
    may munge munged --version
    may openssh-client ssh -V
    may openssh-server sh -c 'command -v sshd || test -x /usr/sbin/sshd'
    # Build systems find Mica: AX_MPI.
    may autoconf autoconf --version
    may autoconf-archive test -e /usr/share/aclocal/ax_mpi.m4
    # Programs in Fortran, by compilers that write modules of different formats.
    may gfortran gfortran --version
    may gfortran-11 gfortran-11 --version
    may flang-19 sh -c 'command -v flang-new-19 || command -v flang-19'
    # The other architecture.
    may gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc --version
    may libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/lib/libc.so.6
}

# Sets $needed and $useful to the packages that are missing.
look() {
    needed='' useful=''
    packages "$@"
    needed=$(list "$needed")
    useful=$(list "$useful")
}
must() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || needed="$needed $package"
}
may() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || useful="$useful $package"
}
list() {
    # shellcheck disable=SC2086 # a list
    printf '%s\n' $1 | sort -u | tr '\n' ' ' | sed 's/^ *//; s/ *$//'
}

# What to type for the Rust that is needed; nothing if it is there.
rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust_command() {
    if ! command -v cargo >/dev/null; then
        # shellcheck disable=SC2016 # for the user's shell
        printf '%s' 'curl --proto "=https" -sSf https://sh.rustup.rs | sh && . "$HOME/.cargo/env"'
    elif [ "$(printf '%s\n' "$rust_wanted" "$(rust_version)" | sort -V | head -n 1)" != "$rust_wanted" ]; then
        printf '%s' 'rustup update stable'
    fi
}
rust_version() {
    rustc --version | cut -d ' ' -f 2
}
# need COMMAND TEXT: adds to the commands of which all must be typed, $commands, and to what they are for, $missing.
need() {
    commands="${commands:+$commands && }$1"
    missing="${missing:+$missing; }$2"
}

look "$@"
rust=$(rust_command)
commands='' missing=''
if [ -z "$rust" ] && [ -n "$needed$useful" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "system packages: getting $needed $useful"
    export DEBIAN_FRONTEND=noninteractive
    step apt-update apt-get update
    # All at once, or, where a package that is merely useful cannot be had, those that are needed.
    # shellcheck disable=SC2086 # lists
    apt-get install -y --no-install-recommends $needed $useful >"$LOGS/apt-install.log" 2>&1 </dev/null ||
        [ -z "$needed" ] || step apt-install apt-get install -y --no-install-recommends $needed
    look "$@"
fi
[ -z "$needed" ] || need "sudo apt-get install $needed" "packages (Debian's names)"
[ -z "$rust" ] || need "$rust" "Rust $rust_wanted or newer"
[ -z "$commands" ] || fail "this is missing: $missing; get it and start again: $commands"
[ -z "$useful" ] || say "not there, so what uses it is skipped and says so: $useful (Debian's names)"
say "prerequisites ($*): there, with Rust $(rust_version)"

# Every dependency, those of other platforms as well: the test of licences reads them all, and nothing is fetched later.
case " $* " in
    *" lint "*) step fetch cargo fetch --locked ;;
esac

# The environment is made anew when the list of packages or the Python changes.
python_environment() {
    stamp=$VENV/.requirements
    wanted=$(python3 --version; cat scripts/requirements.txt bindings/requirements.txt)
    if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
        rm -rf "$VENV"
        step venv python3 -m venv "$VENV"
        step pip "$VENV/bin/pip" install --disable-pip-version-check \
            -r scripts/requirements.txt -r bindings/requirements.txt
        printf '%s\n' "$wanted" >"$stamp"
    fi
}
case " $* " in
    *" python "*) python_environment ;;
esac
