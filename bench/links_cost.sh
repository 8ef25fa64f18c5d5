#!/bin/sh
# What observing costs: a collective without and with the observer of `mica links run`, in percent, and a prediction, in nanoseconds.
#
#   bench/links_cost.sh [-n RANKS] [-r JOBS] [COLLECTIVE BYTES]
#
# In each of JOBS (41), 4000 calls are observed and not by turns, a hundred at a time, since a virtual machine changes its speed
# every few seconds. Ranks are 32, the collective is an allreduce of 16384 bytes unless named; the target is less than 2 % on a
# quiet machine. PREFIX is the installation of Mica (target/dist).
. "$(dirname "$0")/kernels.sh"

ranks=32
rounds=41
counts "$@"
shift $((OPTIND - 1))
[ $# -eq 0 ] || [ $# -eq 2 ] || fail "expected a collective and bytes, or neither"
exec "$PREFIX/bin/mica" links cost --observer "$rounds" --calls 4000 --collective "${1:-allreduce}" --bytes "${2:-16384}" \
    -- "$PREFIX/bin/mpiexec" -n "$ranks"
