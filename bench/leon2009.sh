#!/bin/sh
# Section 5.4 of leon-2009: which parameter of LogGP an application depends on, and which policy of cache injection helps it, for the thesis's
# two applications on simulated nodes, beside what the thesis says.
#
#   bench/leon2009.sh [-n NODES] [-m MACHINE] DIR
#
# Programs are hpcc's MPIFFT and hypre's conjugate gradient with algebraic multigrid, which bench/sim_programs.sh builds into $PROGRAMS.
# NODES are 8 (a power of two), MACHINE is power5-redstorm. DIR gets a file for each run, paper.txt and paper.md (paper_tables.py; printed
# last). PREFIX is the installation of Mica.
. "$(dirname "$0")/kernels.sh"

PROGRAMS=${PROGRAMS:-$TARGET/sim-programs}
nodes=8
machine=power5-redstorm
while getopts n:m: option; do
    case $option in
        n) nodes=$OPTARG ;;
        m) machine=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || fail "expected the directory for the results"
out=$1
mkdir -p "$out"
names=
for name in fft amg; do
    [ ! -x "$PROGRAMS/$name" ] || names="$names $name"
done
[ -n "$names" ] || fail "no $PROGRAMS/fft: PATH=$PREFIX/bin:\$PATH sh $ROOT/bench/sim_programs.sh $PROGRAMS fft amg"

# grid NODES: its dimensions for the solver, as even as powers of two can be.
grid() {
    x=1 y=1 z=1
    while [ $((x * y * z)) -lt "$1" ]; do
        if [ $x -le $y ] && [ $x -le $z ]; then
            x=$((x * 2))
        elif [ $y -le $z ]; then
            y=$((y * 2))
        else
            z=$((z * 2))
        fi
    done
    echo "-n $((x * 6)) $((y * 6)) $((z * 6)) -P $x $y $z"
}

# program NAME: its command.
program() {
    case $1 in
        fft) echo "$PROGRAMS/fft 4096" ;;
        amg) echo "$PROGRAMS/amg -laplacian $(grid "$nodes") -c 1 1 10 -solver 1" ;;
    esac
}

for name in $names; do
    echo "== $name: sensitivity" >&2
    # shellcheck disable=SC2046 # words of a command
    "$PREFIX/bin/mica" sim sensitivity -n "$nodes" --machine "$machine" --region pcontrol --factors 2 --quiet \
        --json "$out/$name-sensitivity.json" -- $(program "$name") >"$out/$name-sensitivity.txt" || fail "$name failed"
    for policy in base header payload; do
        echo "== $name: $policy" >&2
        # shellcheck disable=SC2046
        "$PREFIX/bin/mica" sim run -n "$nodes" --machine "$machine" --region pcontrol --policy $policy --quiet \
            --stdout "$out/$name.log" --json "$out/$name-$policy.json" -- $(program "$name") || fail "$name failed"
    done
done
exec python3 "$ROOT/bench/paper_tables.py" leon2009 "$out"
