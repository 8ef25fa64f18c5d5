#!/bin/sh
# The solver on 16 and 64 nodes: mica in PATH, the programs of bench/sim_programs.sh in $PROGRAMS. Writes a compressed JSON file a run.
set -eu
amg=${PROGRAMS:-target/sim-programs}/amg
# run NODES SLOW-DOWN POLICY POINTS BOX
run() {
    # shellcheck disable=SC2086 # lists
    mica sim run -q -n "$1" --machine power5-redstorm --set processor.mhz=2100 --set "memory.slow_down=$2" --policy "$3" \
        --region pcontrol --json "amg-$1-$2-$3.json" -- "$amg" -laplacian -n $4 -P $5 -c 1 1 10 -solver 1
    gzip -9 -n "amg-$1-$2-$3.json"
}
for slow_down in 1.0 7.5; do
    for policy in base header payload message; do
        run 16 $slow_down $policy "32 16 16" "4 2 2"
    done
done
for policy in base header; do
    run 64 1.0 $policy "32 32 32" "4 4 4"
done
