#!/bin/sh
# `make test`: every test. Sets up the machine first.
. "$(dirname "$0")/common.sh"

start=$(date +%s)
sh scripts/setup.sh
step format cargo fmt --all --check
step lint cargo clippy --workspace --all-targets --locked -- -D warnings
sh scripts/install.sh "$DIST"
sh scripts/mpi4py.sh

# What the tests of whole programs use.
export MICA_PREFIX="$DIST"
export MICA_LIB="$DIST/lib/libmpi_abi.so.1"
export MICA_PYTHON="$VENV/bin/python"
export MICA_MPI4PY_SOURCE="$BUILD/mpi4py-src"
step unit-tests cargo test --workspace --exclude mica-tests --locked --no-fail-fast
results unit-tests
step program-tests cargo test -p mica-tests --locked --no-fail-fast
results program-tests

# Interleavings of the shared-memory primitives. What else shows that claims hold takes longer: `make proof`.
sh scripts/proof.sh loom

# The other architecture at least compiles.
sh scripts/aarch64.sh check
say "all tests passed in $(($(date +%s) - start)) s"
