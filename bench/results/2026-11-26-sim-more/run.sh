#!/bin/sh
# The solver on 4 and 64 nodes and the FFT on 64: mpiexec and mica in PATH, the programs of bench/sim_programs.sh in $PROGRAMS.
# Writes a compressed JSON file a run; what is there is not simulated again.
set -eu
programs=${PROGRAMS:-target/sim-programs}
# run NAME NODES OPTIONS... -- PROGRAM ARGUMENTS...
run() {
    name=$1 nodes=$2
    shift 2
    [ ! -s "$name.json.gz" ] || return 0
    mpiexec -n 2 mica sim run -q -n "$nodes" --machine power5-redstorm --region pcontrol --json "$name.json" "$@"
    gzip -9 -n "$name.json"
}
for policy in base header payload message; do
    run "fft-64-$policy" 64 --policy "$policy" -- "$programs/fft"
done
# solver NODES SLOW-DOWN POLICY POINTS BOX
solver() {
    # shellcheck disable=SC2086 # lists
    run "amg-$1-$2-$3" "$1" --set processor.mhz=2100 --set "memory.slow_down=$2" --policy "$3" -- \
        "$programs/amg" -laplacian -n $4 -P $5 -c 1 1 10 -solver 1
}
for slow_down in 1.0 7.5; do
    for policy in base header payload message; do
        solver 4 $slow_down $policy "16 16 8" "2 2 1"
    done
done
for policy in payload message; do
    solver 64 1.0 $policy "32 32 32" "4 4 4"
done
for policy in base header payload message; do
    solver 64 7.5 $policy "32 32 32" "4 4 4"
done
