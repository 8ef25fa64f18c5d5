#!/bin/sh
# The solver on 4, 16 and 64 nodes, the FFT on 64, and the integer sort on 4 with part of the bandwidth: mpiexec and mica in PATH, the
# programs of bench/sim_programs.sh in $PROGRAMS. Writes a compressed JSON file a run; what is there is not simulated again.
set -eu
programs=${PROGRAMS:-target/sim-programs}
# run NAME NODES OPTIONS... -- PROGRAM ARGUMENTS...
run() {
    name=$1 nodes=$2
    shift 2
    [ ! -s "$name.json.gz" ] || return 0
    mpiexec -n 2 mica sim run -q -n "$nodes" --machine power5-redstorm --json "$name.json" "$@"
    gzip -9 -n "$name.json"
}
for factor in 1 0.5 0.2 0.1 0.05; do
    run "sort-4-$factor" 4 --set network.topology.kind=crossbar --set network.bandwidth_factor=$factor -- "$programs/integer_sort" M
done
# solver NODES SLOW-DOWN POLICY POINTS BOX
solver() {
    # shellcheck disable=SC2086 # lists
    run "amg-$1-$2-$3" "$1" --region pcontrol --set processor.mhz=2100 --set "memory.slow_down=$2" --policy "$3" -- \
        "$programs/amg" -laplacian -n $4 -P $5 -c 1 1 10 -solver 1
}
for slow_down in 1.0 7.5; do
    for policy in base header payload message; do
        solver 4 $slow_down $policy "16 16 8" "2 2 1"
        solver 16 $slow_down $policy "32 16 16" "4 2 2"
    done
done
for policy in base header payload message; do
    run "fft-64-$policy" 64 --region pcontrol --policy "$policy" -- "$programs/fft"
done
for slow_down in 7.5 1.0; do
    for policy in base header payload message; do
        solver 64 $slow_down $policy "32 32 32" "4 4 4"
    done
done
