#!/bin/sh
# `make experiments`: the thesis's simulated experiments (docs/sim.md) with what is installed in target/dist, which it builds first.
# experiments.sh NAME [OPTION...]
. "$(dirname "$0")/common.sh"

sh scripts/install.sh "$DIST"
[ -d "$BUILD/sim-programs" ] || PATH=$DIST/bin:$PATH sh bench/sim_programs.sh "$BUILD/sim-programs"
cargo run --profile "$COMMANDS_PROFILE" --locked -p mica-experiments -- \
    --prefix "$DIST" --programs "$BUILD/sim-programs" --output "$BUILD/sim-experiments" "$@"
