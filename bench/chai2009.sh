#!/bin/sh
# Chapter 2 of chai-2009 (Figures 2.1 to 2.7, Tables 2.1 and 2.2), with the paper's numbers beside ours and the reasons why they differ.
#
#   bench/chai2009.sh [-l] DIR
#
# Programs are those of bench/src and, where bench/sim_programs.sh has built it ($PROGRAMS/hpl), HPL of Debian's hpcc. Messages are counted by
# `mica profile` and depend on no machine, so the 16 ranks of the paper's four nodes run wherever this is called; -l also runs the 256
# ranks of Table 2.2 and Figure 2.4, which takes a quarter of an hour or more on two cores. Levels follow from the rank: blocks
# of two ranks share a chip, chips a node, as the paper bound its processes. Times are of this machine, with virtual nodes on it.
#
# DIR gets paper.txt and paper.md (paper_tables.py; printed last), and a directory or an output for each run. PREFIX is the installation of
# Mica, PROGRAMS the folder of HPL.
. "$(dirname "$0")/kernels.sh"

PROGRAMS=${PROGRAMS:-$TARGET/sim-programs}
case $PROGRAMS in /*) ;; *) PROGRAMS=$(pwd)/$PROGRAMS ;; esac
large=
while getopts l option; do
    case $option in
        l) large=256 ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || fail "expected the directory for the results"
mkdir -p "$1"
out=$(cd "$1" && pwd)
mpiexec=$PREFIX/bin/mpiexec
for name in pingpong integer_sort fft_transpose cg tiling; do
    compile $name
done

# profiled NAME RANKS PROGRAM...: its profile into $out/NAME.
profiled() {
    run=$1 number=$2
    shift 2
    echo "== $run" >&2
    "$PREFIX/bin/mica" profile --no-timeline -o "$out/$run" -- "$mpiexec" -n "$number" "$@" >"$out/$run.log" 2>&1 </dev/null ||
        fail "$run failed: $(tail -n 1 "$out/$run.log")"
}

# printed NAME COMMAND...: its figures into $out/NAME.out.
printed() {
    run=$1
    shift
    echo "== $run" >&2
    "$@" >"$out/$run.out" 2>"$out/$run.log" </dev/null || fail "$run failed: $(tail -n 1 "$out/$run.log")"
}

# arguments NAME: of a short run.
arguments() {
    case $1 in
        integer_sort | fft_transpose) echo S ;;
        cg) echo 16 ;;
    esac
}

# Figure 2.1. A second package is where mpiexec finds one.
printed pingpong-near "$mpiexec" -n 2 --bind-to core "$WORK/pingpong" 8 65536 1048576 4194304
if [ "$(cat /sys/devices/system/cpu/cpu*/topology/physical_package_id 2>/dev/null | sort -u | wc -l)" -gt 1 ]; then
    printed pingpong-far "$mpiexec" -n 2 --map-by socket --bind-to core "$WORK/pingpong" 8 65536 1048576 4194304
fi
printed pingpong-nodes env MICA_VIRTUAL_NODES=2 "$mpiexec" -n 2 --bind-to core "$WORK/pingpong" 8 65536 1048576 4194304

# Tables 2.1 and 2.2, Figure 2.7.
for name in integer_sort fft_transpose cg; do
    for ranks in 2 4 8 16 $large; do
        # shellcheck disable=SC2046 # words
        profiled "$name-$ranks" "$ranks" "$WORK/$name" $(arguments "$name")
    done
done

# Figure 2.5.
for name in integer_sort fft_transpose cg; do
    for nodes in 1 2 4; do
        # shellcheck disable=SC2046 # words
        (export MICA_VIRTUAL_NODES=$nodes && profiled "$name-4-on-$nodes" 4 "$WORK/$name" $(arguments $name))
    done
done

# Figure 2.6.
for ranks in 2 4; do
    printed "tiling-$ranks" "$mpiexec" -n "$ranks" "$WORK/tiling"
done

# input ROWS COLUMNS: what HPL reads, for a grid of processes and a matrix of 1000 in blocks of 64.
# Columns of the grid, which exchange most, lie within nodes, as the paper's did.
input() {
    cat <<END
HPLinpack benchmark input file
bench/chai2009.sh
HPL.out      output file name (if any)
6            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
1000         Ns
1            # of NBs
64           NBs
1            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
$1           Ps
$2           Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
END
}

# Figures 2.3 and 2.4.
if [ -x "$PROGRAMS/hpl" ]; then
    mkdir -p "$out/hpl-run"
    cd "$out/hpl-run" || exit
    for ranks in 16 $large; do
        rows=4
        [ "$ranks" = 16 ] || rows=16
        input $rows $((ranks / rows)) >hpccinf.txt
        profiled "hpl-$ranks" "$ranks" "$PROGRAMS/hpl"
    done
fi
exec python3 "$ROOT/bench/paper_tables.py" chai2009 "$out"
