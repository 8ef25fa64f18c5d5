#!/bin/sh
# Tables 1 to 5 and Figure 1 of ma-2011: calls like those of its two applications, with direct copy and without, beside the paper's numbers;
# and the same tables of other kernels of bench/src and of mpi4py-fft.
#
#   bench/ma2011.sh [-p] [-n RANKS,RANKS,...] [-r ROUNDS] [-s NAME=VALUE,...] DIR
#
# Each program runs under `mica profile --compare` in alternating rounds (5), with 2 ranks unless -n says otherwise (`-n 2,4,8`:
# the numbers one after the other, and a line on standard error for the time of each). -s are the settings of the other side
# (MICA_DIRECT=off,MICA_COLL=shared). -p runs what the paper's table needs and no other kernel: cpmd.c and fftw_bench.c.
# DIR gets paper.txt and paper.md (paper_tables.py; printed last), tables.txt, tables.md, tables.json, and a directory for each program,
# NAME-RANKS. PREFIX is the installation of Mica.
. "$(dirname "$0")/kernels.sh"

ranks=2
rounds=5
settings=MICA_DIRECT=off,MICA_COLL=shared
only_paper=
while getopts pn:r:s: option; do
    case $option in
        p) only_paper=yes ;;
        n) ranks=$OPTARG ;;
        r) rounds=$OPTARG ;;
        s) settings=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || fail "expected the directory for the tables"
out=$1
mkdir -p "$out"
compile cpmd
compile fftw_bench
[ -n "$only_paper" ] || python_environment
list=$(for number in $(echo "$ranks" | tr , ' '); do
    {
        echo "fftw -n $number $WORK/fftw_bench"
        if [ -n "$only_paper" ]; then
            echo "cpmd -n $number $WORK/cpmd 24K 120"
        else
            kernels "$number"
        fi
    } | sed "s/^\([^ ]*\) /\1-$number /"
done)

: >"$out/tables.txt"
: >"$out/tables.md"
separator='['
printf '%s\n' "$list" | {
    while read -r name arguments; do
        echo "== $name" >&2
        began=$(date +%s)
        # shellcheck disable=SC2086 # words of a command
        "$PREFIX/bin/mica" profile --compare "$settings" --rounds "$rounds" -o "$out/$name" -- \
            "$PREFIX/bin/mpiexec" $arguments </dev/null >/dev/null || fail "$name failed"
        echo "== $name: $(($(date +%s) - began)) s" >&2
        { cat "$out/$name/comparison.txt" && echo; } >>"$out/tables.txt"
        { cat "$out/$name/comparison.md" && echo; } >>"$out/tables.md"
        { echo "$separator" && cat "$out/$name/comparison.json"; } >>"$out/tables.json.new"
        separator=','
    done
    echo ']' >>"$out/tables.json.new"
}
mv "$out/tables.json.new" "$out/tables.json"
[ -n "$only_paper" ] || cat "$out/tables.txt"
python3 "$ROOT/bench/paper_tables.py" ma2011 "$out"
