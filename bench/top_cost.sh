#!/bin/sh
# What `mica top` costs a job: the 8-byte ping-pong of two ranks without and with `mica top` in a terminal (tmux) beside it.
#
#   bench/top_cost.sh [ROUNDS]
#
# Rounds (5) alternate; a round is twenty measurements of half a second or less. Prints the lower quartile, the median
# and the extremes of all: a virtual machine whose cores move has two speeds. PREFIX is
# the installation of Mica (target/dist).
. "$(dirname "$0")/kernels.sh"

rounds=${1:-5}
command -v tmux >/dev/null || fail "tmux is not installed"
compile pingpong
directory=$(mktemp -d)
trap 'tmux kill-session -t mica-top-cost 2>/dev/null || :; rm -rf "$directory"' EXIT
sizes=$(yes 8 | head -n 20)
round=0
while [ $round -lt "$rounds" ]; do
    for side in without with; do
        # shellcheck disable=SC2086 # a list of sizes
        "$PREFIX/bin/mpiexec" -n 2 "$WORK/pingpong" $sizes >"$directory/out" &
        job=$!
        if [ $side = with ]; then
            tmux new-session -d -s mica-top-cost "$PREFIX/bin/mica top $job >/dev/tty" || fail "tmux does not start"
        fi
        wait $job || fail "pingpong failed"
        tmux kill-session -t mica-top-cost 2>/dev/null || :
        sed -n 's/.*"value": \([0-9.]*\),.*/\1/p' "$directory/out" >>"$directory/$side"
    done
    round=$((round + 1))
done
for side in without with; do
    sort -g "$directory/$side" | awk -v side=$side '
        { value[NR] = $1 }
        END { printf "%-8s quartile %.1f ns, median %.1f, from %.1f to %.1f (%d values)\n", side,
                1000 * value[int((NR + 3) / 4)], 1000 * value[int((NR + 1) / 2)], 1000 * value[1], 1000 * value[NR], NR }'
done
