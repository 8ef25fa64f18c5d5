#!/bin/sh
# Miri, the interpreter that finds undefined behaviour, over what handles memory by hand: the shared-memory primitives on
# the heap, regions, views and layouts, datatypes: miri.sh memory|node|mpi...
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
for part in "$@"; do
    case $part in
        node)
            step miri-node cargo +nightly miri test --locked -p mica-node --lib -- \
                ring:: fifo:: cells:: doorbell:: chunk_queue:: cooperative:: helper_slots:: primitives::lock:: \
                migration_gate:: area::layout:: park::tests::wakes_are_never_lost
            ;;
        memory)
            step miri-memory cargo +nightly miri test --locked -p mica-memory --lib --test layout_copy -- \
                --skip a_pipeline_of_pieces --skip long_and_short_runs
            ;;
        objects)
            step miri-objects cargo +nightly miri test --locked -p mica-objects --lib --test integration -- \
                datatype:: datatypes_are contents_make elements_are
            ;;
        *) fail "miri.sh: '$part' is neither memory nor node nor objects" ;;
    esac
    results "miri-$part"
done
