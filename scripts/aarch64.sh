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
step aarch64-check cargo check --locked --workspace --target "$target"

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

step aarch64-node cargo test --locked --target "$target" -p mica-node --lib -- \
    ring:: fifo:: cells:: doorbell:: claims:: split:: tokens:: lock:: area:: segment:: identity:: tunables::
results aarch64-node
step aarch64-policy cargo test --locked --target "$target" -p mica-bootstrap -p mica-protocol --lib
results aarch64-policy
step aarch64-channel cargo test --locked --target "$target" -p mica-channel --lib -- memory:: shm:: net::wire
results aarch64-channel
step aarch64-datatypes cargo test --locked --target "$target" -p mica-mpi --lib -- datatype:: group:: handle:: op::
results aarch64-datatypes
