#!/bin/sh
# `make test`: lints, then every test, and the proofs that the changes since the last full run need (scripts/proof.sh); with FULL=1 all
# proofs, and the commit is noted as the last full run. Sets up the machine first.
#
# Two things run at a time where each takes one core, and the proofs beside the tests, when these leave a core idle. No test depends
# on time.
. "$(dirname "$0")/common.sh"

start=$(date +%s)
# In a container of its own this is process 1, which ignores the signals that it does not handle.
trap 'exit 130' INT TERM HUP
# Everything is compiled once: what makes a second time faster costs time and disk here.
export CARGO_INCREMENTAL=0
# The library is tested as users get it, mpiexec and mica with debug assertions: most of what they consist of is
# compiled for the unit tests anyway.
export MICA_COMMANDS_PROFILE=dev
# Who debugs a failed test compiles it anew, with line tables.
export CARGO_PROFILE_DEV_DEBUG=false
rm -rf "$LOGS/times"
mkdir -p "$LOGS/times"

sh scripts/setup.sh build lint test
sh scripts/lint.sh
say "lint: done after $(($(date +%s) - start)) s"
if [ -n "${FULL-}" ]; then
    proofs=$(sh scripts/proof.sh all)
else
    proofs=$(sh scripts/proof.sh since)
fi
say "proofs: ${proofs:-none, by what has changed since the last full run}"

# The library is optimized as a whole, which one core does; the other compiles the tests meanwhile.
(
    sh scripts/setup.sh python
    # shellcheck disable=SC2086 # a list
    step build-library cargo build --release --locked $LIBRARIES
) &
library=$!
build_tests() {
    # shellcheck disable=SC2086 # several words
    cargo build --workspace $WITHOUT_TESTS --all-targets --locked --timings --message-format=json-render-diagnostics >"$LOGS/binaries.json"
}
step build-tests build_tests
# What fails from here on does not keep the rest from running: who mends it knows all of it.
failed=
(step doc env RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --keep-going --workspace --no-deps --document-private-items --locked) ||
    failed="$failed doc"
wait "$library" || fail "build-library or python: see above"
# The stacks of a test that hangs name lines.
DEBUG=1 sh scripts/install.sh "$DIST"

# Waiting ranks yield their core. To a nice process it is lost for a slice of some milliseconds each time, to an idle one not.
idle="nice -n 19"
if chrt -i 0 true 2>/dev/null; then
    idle="chrt -i 0"
fi
proof=
if [ -n "$proofs" ]; then
    # Beside the programs that run here anyway, two test programs need not be compiled for the other architecture.
    [ -n "${FULL-}" ] || export MICA_BRIEF=1
    # shellcheck disable=SC2086 # lists
    $idle sh scripts/proof.sh $proofs >"$LOGS/proof.log" 2>&1 &
    proof=$!
fi
sh scripts/mpi4py.sh &
mpi4py=$!

# What the tests of whole programs use.
export MICA_PREFIX="$DIST"
export MICA_LIB="$DIST/lib/libmpi_abi.so.1"
export MICA_PYTHON="$VENV/bin/python"
export MICA_MPI4PY_SOURCE="$BUILD/mpi4py-src"
# suite NAME OPTIONS...: runs tests and shows what they came to.
suite() {
    suite_name=$1
    shift
    step "$suite_name" "$CARGO_TARGET/debug/suite" --name "$suite_name" "$@" "$LOGS/binaries.json"
    grep -E '^skipped|passed, .* failed$' "$LOGS/$suite_name.log"
}
(suite unit-tests --skip "mica-tests jobs ") || failed="$failed unit-tests"
wait "$mpi4py" || failed="$failed mpi4py"
(suite program-tests --only "mica-tests jobs ") || failed="$failed program-tests"
if [ -n "$proof" ]; then
    wait "$proof" || failed="$failed proofs"
    cat "$LOGS/proof.log"
fi
"$CARGO_TARGET/debug/test-times" "$LOGS/times" "$LOGS/times.json"
[ -z "$failed" ] || fail "failed:$failed; see above"
[ -z "${FULL-}" ] || sh scripts/proof.sh stamp
say "all tests passed in $(($(date +%s) - start)) s"
