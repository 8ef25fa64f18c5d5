#!/bin/sh
# Compiles the library, then what is loaded into ranks and into the emulator, then the tools. Apart, so that what the tools ask of the
# crate `node` (hwloc) does not get into the others. MICA_CARGO_BUILD is another command than `cargo build`, which leaves what it makes at the
# same places below CARGO_TARGET_DIR (scripts/wheel.sh).
# shellcheck disable=SC2086 # $cargo_build and $LIBRARIES are several words
. "$(dirname "$0")/common.sh"

sh scripts/setup.sh build
cargo_build=${MICA_CARGO_BUILD:-cargo build}
step build-library $cargo_build --release --locked $LIBRARIES
if [ "$COMMANDS_PROFILE" = dev ]; then
    # With the tests, so that one set of features is compiled, and not two.
    step build-tools cargo build --workspace $WITHOUT_TESTS --all-targets --locked
else
    step build-preloads $cargo_build --profile "$COMMANDS_PROFILE" --locked -p mica-profile-preload -p mica-sim-plugin
    step build-tools $cargo_build --profile "$COMMANDS_PROFILE" --locked -p mica-launch -p mica
fi

for library in "$CARGO_TARGET/release/libmpi_abi.so" "$CARGO_TARGET/release/libmpi.so" "$CARGO_TARGET/release/libmpifort_abi.so" \
    "$CARGO_TARGET/release/libmpifort.so" "$COMMANDS/libmica_profile_preload.so" "$COMMANDS/libmica_sim_plugin.so"; do
    if readelf -d "$library" | grep -E 'NEEDED.*(hwloc|udev)'; then
        fail "$library must not need hwloc"
    fi
done
