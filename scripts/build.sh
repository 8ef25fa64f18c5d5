#!/bin/sh
# Compiles the library, then what is loaded into ranks and into the emulator, then the tools. Apart, so that what the tools ask of the
# crate `node` (hwloc) does not get into the others.
. "$(dirname "$0")/common.sh"

sh scripts/setup.sh build
step build-library cargo build --release --locked -p mica-mpi5 -p mica-mpich
if [ "$COMMANDS_PROFILE" = dev ]; then
    # With the tests, so that one set of features is compiled, and not two.
    step build-tools cargo build --workspace --exclude mica-mpi5 --all-targets --locked
else
    step build-preloads cargo build --profile "$COMMANDS_PROFILE" --locked -p mica-profile-preload -p mica-sim-plugin
    step build-tools cargo build --profile "$COMMANDS_PROFILE" --locked -p mica-launch -p mica
fi

for library in "$CARGO_TARGET/release/libmpi_abi.so" "$CARGO_TARGET/release/libmpi.so" "$COMMANDS/libmica_profile_preload.so" "$COMMANDS/libmica_sim_plugin.so"; do
    if readelf -d "$library" | grep -E 'NEEDED.*(hwloc|udev)'; then
        fail "$library must not need hwloc"
    fi
done
