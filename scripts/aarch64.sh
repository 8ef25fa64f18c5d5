#!/bin/sh
# The other architecture: compiles for aarch64, and runs under qemu-user what it can emulate.
#
# qemu-user translates one process: atomics, memory order as far as the host's is not stronger, layouts and system calls
# are tested; timing and what the host's processor reorders is not. Left out: tests that need hwloc (no library for that
# architecture here), membarrier, and direct copy (ptrace and process_vm_readv act on the emulator's memory).
. "$(dirname "$0")/common.sh"

target=aarch64-unknown-linux-gnu
if ! command -v rustup >/dev/null; then
    say "aarch64: skipped, there is no rustup to install the target $target"
    exit 0
fi
if ! rustup target list --installed | grep -qx "$target" &&
    ! rustup target add "$target" >"$LOGS/aarch64-target.log" 2>&1; then
    say "aarch64: skipped, rustup cannot install the target: $(tail -n 1 "$LOGS/aarch64-target.log")"
    exit 0
fi
# pkg-config need not know the target: nothing that it describes is linked.
export PKG_CONFIG_ALLOW_CROSS=1
export CARGO_TARGET_DIR="$CARGO_TARGET/aarch64"
# `make test` compiles below what depends on the architecture; the tools, whose tests run on this machine, do not.
[ -n "${MICA_BRIEF:-}" ] || step aarch64-check cargo check --locked --workspace --target "$target"

cross=aarch64-linux-gnu-gcc
if ! command -v qemu-aarch64 >/dev/null || ! command -v $cross >/dev/null; then
    say "aarch64: compiled, not run: qemu-user or gcc-aarch64-linux-gnu with libc6-dev-arm64-cross is not there"
    exit 0
fi
root=/usr/aarch64-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cross
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $root"
# proptest's cases: emulated code is ten times slower.
export PROPTEST_CASES=32
# The tests are few: to optimize takes longer than what it saves.
export CARGO_PROFILE_DEV_OPT_LEVEL=0

# Two start themselves again, which here is a program that this machine cannot run.
step aarch64-node cargo test --locked --target "$target" -p mica-node --lib -- --skip an_empty_variable_is_not_set --skip old_names_hold \
    ring:: fifo:: cells:: doorbell:: chunk_queue:: cooperative:: helper_slots:: primitives::lock:: migration_gate:: area:: segment:: identity:: tunables::
results aarch64-node
step aarch64-memory cargo test --locked --target "$target" -p mica-memory
results aarch64-memory
step aarch64-channel cargo test --locked --target "$target" -p mica-channel --lib -- shm:: net::wire
results aarch64-channel
# `make test` leaves out what the programs below show too, but for rarer cases: two test programs more to compile.
if [ -z "${MICA_BRIEF:-}" ]; then
    # One starts itself again by /proc/self/exe, which here is the emulator; one needs direct copy; and the emulator does not tell who starts a
    # program that it is not there.
    step aarch64-protocol cargo test --locked --target "$target" -p mica-bootstrap -p mica-protocol --lib -- \
        --skip serves_own_user_only --skip long_messages_use_kernel_copy --skip a_launcher_that_ends_at_once
    results aarch64-protocol
    step aarch64-datatypes cargo test --locked --target "$target" -p mica-objects --lib -- datatype:: group:: handle:: op::
    results aarch64-datatypes
fi

# Small programs, started by this machine's mpiexec: what is in the job segment means the same on both architectures.
[ -x "$DIST/bin/mpiexec" ] || fail "aarch64: install first (sh scripts/install.sh $DIST)"
build=$CARGO_TARGET_DIR/$target
# Not the release profile: the crates are there from the tests above, and debug assertions run here too. What is loaded into ranks and into
# the emulator reads the architecture's registers: it is compiled.
# shellcheck disable=SC2086 # a list
step aarch64-library cargo build --locked $LIBRARIES -p mica-profile-preload -p mica-sim-plugin --target "$target"
mkdir -p "$build/lib"
# A copy: tests beside this look for what jobs of the installation leave behind.
cp "$DIST/bin/mpiexec" "$build/lib/mpiexec"
cp "$build/debug/libmpi_abi.so" "$build/lib/libmpi_abi.so.1"
ln -sfn libmpi_abi.so.1 "$build/lib/libmpi_abi.so"

# program RANKS NAME ARGUMENTS...: one of tests/c.
program() {
    $cross -std=c11 -D_GNU_SOURCE -O1 -g -pthread -Iinclude -o "$build/lib/$2" "tests/c/$2.c" \
        -L"$build/lib" -lmpi_abi -lm -Wl,-rpath,"$build/lib"
    ranks=$1 name=$2
    shift 2
    timeout 300 "$build/lib/mpiexec" -n "$ranks" qemu-aarch64 -L $root "$build/lib/$name" "$@" |
        tee "$build/lib/output"
    grep -qx "No Errors" "$build/lib/output"
}
step aarch64-modes program 2 pt2pt_modes
step aarch64-paths program 2 pt2pt_paths 60 1
step aarch64-collectives program 3 coll_data
step aarch64-collective-paths program 2 coll_paths 1000 1
step aarch64-datatypes-program program 2 type_random 100
step aarch64-threads program 2 thr_pingpong 20
