#!/bin/sh
# Miri, the interpreter that finds undefined behaviour, over what handles memory by hand: the shared-memory primitives on
# the heap, regions, views and layouts, datatypes.
#
# Left out, as Miri has no memfd, no shared mappings, no membarrier and no sockets that poll: the job segment and the
# areas in it (whose primitives are among those that run), the bell, everything that talks to the kernel or to hwloc.
. "$(dirname "$0")/common.sh"

if ! sysroot=$(nightly_with miri rust-src); then
    say "Miri: skipped, $sysroot"
    exit 0
fi
# Addresses travel as numbers by design (offsets in shared memory): provenance is exposed, and not checked strictly.
# Tests may read clocks and files. Leaks: the predefined datatypes are leaked on purpose.
export MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-ignore-leaks"
export CARGO_TARGET_DIR="$CARGO_TARGET/miri"
# One interpreter takes one core; two at a time.
(
    step miri-primitives cargo +nightly miri test --locked -p mica-node --lib -- \
        ring:: fifo:: cells:: doorbell:: chunk_queue:: cooperative:: helper_slots:: lock:: area::layout:: \
        park::tests::wakes_are_never_lost
    results miri-primitives
    step miri-memory cargo +nightly miri test --locked -p mica-channel --lib --test layout_copy -- \
        memory:: pack_gathers runs_are any_layout contiguous_messages a_view_stays
    results miri-memory
) &
first=$!
step miri-datatypes cargo +nightly miri test --locked -p mica-mpi --lib --test datatype_typemap -- \
    datatype:: datatypes_are contents_make elements_are
results miri-datatypes
wait "$first" || fail "miri: see above"
