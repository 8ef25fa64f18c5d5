#!/bin/sh
# Compiles the library, and then the tools. Apart, so that what the tools ask of the crate `node`
# (hwloc) does not get into the library.
. "$(dirname "$0")/common.sh"

step build-library cargo build --release --locked -p mica-mpi5
# What is loaded into ranks and into the emulator: without hwloc as well.
step build-preloads cargo build --release --locked -p mica-profile-preload -p mica-sim-plugin
step build-tools cargo build --profile "$COMMANDS_PROFILE" --locked -p mica-launch -p mica

if readelf -d "$CARGO_TARGET/release/libmpi_abi.so" | grep -E 'NEEDED.*(hwloc|udev)'; then
    fail "libmpi_abi.so must not need hwloc"
fi
