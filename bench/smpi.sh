#!/bin/sh
# Integer sort under SimGrid's SMPI with throttled bandwidth, to be put beside `mica sim run` and leon-2009's Figures 3.4 and 3.5.
#
#     bench/smpi.sh [-n RANKS] [-s S|M|L] [-f FACTOR,FACTOR,...] [-m MACHINE] [-p RATIO]
#
# Debian: libsimgrid-dev. RANKS nodes with one rank each (4) sort the set (S) on a network with L, G and bandwidth of the machine's
# file (power5-redstorm; a crossbar, since links between switches are not the bottleneck here), whose bandwidth is FACTOR of what it
# is (1,0.5,0.25,0.1,0.05,0.02,0.01). Programs compute at the host's speed divided by RATIO (1): choose that of the host to the machine.
# Prints columns: ranks, factor, milliseconds of an iteration, percent of the time with factor 1.
set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
RANKS=4 SET=S FACTORS=1,0.5,0.25,0.1,0.05,0.02,0.01 MACHINE=power5-redstorm RATIO=1

fail() {
    echo "smpi.sh: $*" >&2
    exit 1
}

while getopts n:s:f:m:p: option; do
    case $option in
    n) RANKS=$OPTARG ;;
    s) SET=$OPTARG ;;
    f) FACTORS=$OPTARG ;;
    m) MACHINE=$OPTARG ;;
    p) RATIO=$OPTARG ;;
    *) fail "usage: smpi.sh [-n RANKS] [-s S|M|L] [-f FACTOR,...] [-m MACHINE] [-p RATIO]" ;;
    esac
done
command -v smpicc >/dev/null || fail "no smpicc: apt-get install libsimgrid-dev"
FILE=$MACHINE
[ -f "$FILE" ] || FILE=$ROOT/crates/machine/machines/$MACHINE.toml
[ -f "$FILE" ] || fail "no machine '$MACHINE'"

# value KEY: a number of the section [network].
value() {
    awk -v key="$1" '/^\[/ { inside = $0 == "[network]" }
        inside && $1 == key { print $3; found = 1; exit }
        END { exit !found }' "$FILE" || fail "$FILE: no $1 in [network]"
}
LATENCY=$(value latency_ns)
PER_BYTE=$(value gap_per_byte_ns)

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
smpicc -std=gnu11 -O2 -o "$WORK/integer_sort" "$ROOT/bench/src/integer_sort.c" -lm || fail "cannot compile integer_sort.c"
i=0
while [ "$i" -lt "$RANKS" ]; do
    echo "node-$i"
    i=$((i + 1))
done >"$WORK/hosts"

# platform FACTOR: nodes at one switch, each with a link to it; half of L on each of the two links of a path.
platform() {
    awk -v last=$((RANKS - 1)) -v latency="$LATENCY" -v per_byte="$PER_BYTE" -v factor="$1" 'BEGIN {
        print "<?xml version=\"1.0\"?>"
        print "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
        print "<platform version=\"4.1\">"
        printf "<cluster id=\"cluster\" prefix=\"node-\" radical=\"0-%d\" suffix=\"\" speed=\"1Gf\"", last
        printf " bw=\"%.0fBps\" lat=\"%.3fns\"/>\n", factor * 1e9 / per_byte, latency / 2
        print "</platform>"
    }' >"$WORK/platform.xml"
}

SPEED=$(awk -v ratio="$RATIO" 'BEGIN { printf "%.0f", ratio * 1e9 }')
FIRST=
printf '%6s %8s %12s %8s\n' ranks factor ms percent
for factor in $(echo "$FACTORS" | tr , ' '); do
    platform "$factor"
    smpirun -np "$RANKS" -platform "$WORK/platform.xml" -hostfile "$WORK/hosts" --cfg=smpi/host-speed:"$SPEED"f \
        --cfg=network/model:CM02 --log=root.thres:critical "$WORK/integer_sort" "$SET" >"$WORK/out" 2>"$WORK/errors" ||
        fail "smpirun: $(tail -n 1 "$WORK/errors")"
    ms=$(sed -n 's/.*"measure": *"integer sort '"$SET"'".*"value": *\([0-9.e+-]*\).*/\1/p' "$WORK/out")
    [ -n "$ms" ] || fail "no result of integer_sort: $(head -n 1 "$WORK/out")"
    FIRST=${FIRST:-$ms}
    awk -v ranks="$RANKS" -v factor="$factor" -v ms="$ms" -v first="$FIRST" \
        'BEGIN { printf "%6d %8g %12.4f %8.1f\n", ranks, factor, ms, 100 * ms / first }'
done
