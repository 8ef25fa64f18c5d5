#!/bin/sh
# `make test`: every test, and the proofs (scripts/proof.sh). Sets up the machine first.
#
# Link-time optimisation and the build of mpi4py take one core, and tests often wait; so two things run at a time, and the proofs beside
# the tests, when these leave a core idle. No test depends on time.
. "$(dirname "$0")/common.sh"

start=$(date +%s)
# Everything is compiled once: what makes a second time faster costs time and disk here.
export CARGO_INCREMENTAL=0
# The library is tested as users get it, mpiexec and mica with debug assertions: most of what they consist of is
# compiled for the unit tests anyway.
export MICA_COMMANDS_PROFILE=dev
# Who debugs a failed test compiles it anew, with line tables.
export CARGO_PROFILE_DEV_DEBUG=false
beside=
# The step that is under way ends by itself; no other follows.
# shellcheck disable=SC2086 # a list
trap 'kill $beside 2>/dev/null || :' EXIT
sh scripts/setup.sh
sh scripts/proof.sh tools
step format cargo fmt --all --check
(
    step lint cargo clippy --workspace --all-targets --locked -- -D warnings
    sh scripts/proof.sh doc
) &
lint=$! beside=$!
sh scripts/install.sh "$DIST"
wait "$lint" || fail "lint: see above"
# cargo-deny takes five minutes to compile: `make proof` does that, and it is asked here from then on. Licences are a test
# as well (tests/tests/law.rs).
licences=deny
if ! PATH=$BUILD/tools/bin:$PATH command -v cargo-deny >/dev/null; then
    licences=
    say "cargo-deny: skipped, it is not installed; sh scripts/proof.sh deny installs it"
fi
# Waiting ranks yield their core. To a nice process it is lost for a slice of some milliseconds each time, to an idle one not.
idle="nice -n 19"
if chrt -i 0 true 2>/dev/null; then
    idle="chrt -i 0"
fi
# shellcheck disable=SC2086 # lists
MICA_BRIEF=1 $idle sh scripts/proof.sh shell $licences loom miri aarch64 thread address >"$LOGS/proof.log" 2>&1 &
proof=$! beside=$!
sh scripts/mpi4py.sh &
mpi4py=$! beside="$proof $!"

# What the tests of whole programs use.
export MICA_PREFIX="$DIST"
export MICA_LIB="$DIST/lib/libmpi_abi.so.1"
export MICA_PYTHON="$VENV/bin/python"
export MICA_MPI4PY_SOURCE="$BUILD/mpi4py-src"
# Debian's libfabric reads all of /proc/kallsyms in each rank of a job that spans nodes, for a tenth of a second (docs/design/net.md):
# thousands of ranks here find it empty, where this user may mount.
without_symbols() {
    # shellcheck disable=SC2016 # the inner shell's
    unshare -m sh -c 'mount --bind /dev/null /proc/kallsyms && exec "$@"' sh "$@"
}
without_symbols true 2>/dev/null || without_symbols() { "$@"; }
# No documentation has code to run (tests/tests/docs.rs), and to find that out takes 20 s of a core.
step unit-tests cargo test --workspace --exclude mica-tests --locked --no-fail-fast --lib --bins --tests --examples
results unit-tests
wait "$mpi4py" || fail "mpi4py: see above"
step program-tests without_symbols cargo test -p mica-tests --locked --no-fail-fast --lib --tests
results program-tests
if ! wait "$proof"; then
    cat "$LOGS/proof.log"
    fail "proofs: see above"
fi
cat "$LOGS/proof.log"
say "all tests passed in $(($(date +%s) - start)) s"
