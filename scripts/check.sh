#!/bin/sh
# `make check`: the quick tier for daily work. Lints, unit tests, a few programs; under three minutes once the
# build directory is warm. Tests of whole programs, of other machines and under tools are `make test`'s.
. "$(dirname "$0")/common.sh"

start=$(date +%s)
trap 'exit 130' INT TERM HUP
sh scripts/setup.sh
sh scripts/lint.sh
step unit-tests cargo test --workspace --exclude mica-tests --exclude mica-structure --locked --no-fail-fast --lib --bins
results unit-tests
# The library for trying: as fast to compile as it goes, in its own directory.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
export CARGO_PROFILE_RELEASE_INCREMENTAL=true CARGO_TARGET_DIR="$CARGO_TARGET/check"
sh scripts/install.sh "$CARGO_TARGET_DIR/dist"
dist=$CARGO_TARGET_DIR/dist
# program RANKS NAME ARGUMENTS...: one of tests/c.
program() {
    "$dist/bin/mpicc" -std=c11 -D_GNU_SOURCE -O1 -g -pthread -o "$dist/$2" "tests/c/$2.c" -lm
    ranks=$1 name=$2
    shift 2
    timeout 100 "$dist/bin/mpiexec" -n "$ranks" "$dist/$name" "$@" | tee "$dist/output"
    grep -qx "No Errors" "$dist/output"
}
step init program 1 init_basic
step modes program 2 pt2pt_modes
step paths program 2 pt2pt_paths
step collective-paths program 3 coll_paths
step collectives program 3 coll_data
step datatypes program 2 type_random 100
step threads program 2 thr_pingpong 20
say "checked in $(($(date +%s) - start)) s; before a commit is merged: make test"
