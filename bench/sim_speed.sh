#!/bin/sh
# How fast `mica sim` simulates: accesses a second beside valgrind's cachegrind, and one host core beside two.
#
#     bench/sim_speed.sh [-r RUNS]
#
# Needs mica, mpicc and mpiexec in PATH, qemu-x86_64, valgrind, taskset. Programs are bench/src/integer_sort.c and jacobi.c, one rank;
# the time of a run is that of the whole command on the wall, the median of RUNS (5), with the tools in turns. Columns of the first table:
#
#     cachegrind   valgrind --tool=cachegrind --cache-sim=yes, I1 and D1 32 KiB of 8 ways, LL 8 MiB of 16, lines of 64 bytes
#     floor        qemu-x86_64 with a plugin that counts: a callback a block and an empty one an access (bench/sim/floor.c)
#     same         mica sim with the same caches (bench/sim/cachegrind.toml)
#     power5, xeon mica sim with whole machines, three levels and a prefetcher
#
# Each is in seconds, "ns" is that of cachegrind or mica sim less the time of a program that only starts, an access. Accesses are loads and
# stores as mica sim counts them. The second table has two simulated nodes by one host process on core 0, and by two on cores 0 and 1.
set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
RUNS=5
while getopts r: option; do
    case $option in
    r) RUNS=$OPTARG ;;
    *) echo "usage: sim_speed.sh [-r RUNS]" >&2 && exit 1 ;;
    esac
done
for tool in mica mpicc mpiexec qemu-x86_64 valgrind taskset python3; do
    command -v "$tool" >/dev/null || { echo "sim_speed.sh: no $tool" >&2 && exit 1; }
done
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
cd "$DIR"
for program in integer_sort jacobi; do
    mpicc -O2 -fno-tree-vectorize -o $program "$ROOT/bench/src/$program.c" -lm
done
printf '#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n' >start.c
mpicc -O2 -o start start.c
cc -O2 -shared -fPIC -o floor.so "$ROOT/bench/sim/floor.c"
export RUNS ROOT
exec python3 "$ROOT/bench/sim/speed.py"
