#!/bin/sh
# Tables 1 to 5 of ma-2011 for the kernels of bench/src and mpi4py-fft, with direct copy and without.
#
#   bench/ma2011.sh [-n RANKS,RANKS,...] [-r ROUNDS] [-s NAME=VALUE,...] DIR
#
# Each kernel runs under `mica profile --compare` in alternating rounds (5), with 2 ranks unless -n says otherwise (`-n 2,4,8`:
# the numbers one after the other, and a line on standard error for the time of each). -s are the settings of the other side
# (MICA_DIRECT=off,MICA_COLL=shared). DIR gets tables.txt, tables.md, tables.json, and a directory for each kernel, KERNEL-RANKS.
# PREFIX is the installation of Mica (target/dist).
. "$(dirname "$0")/kernels.sh"

ranks=2
rounds=5
settings=MICA_DIRECT=off,MICA_COLL=shared
while getopts n:r:s: option; do
    case $option in
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
python_environment
list=$(for number in $(echo "$ranks" | tr , ' '); do
    kernels "$number" | sed "s/^\([^ ]*\) /\1-$number /"
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
cat "$out/tables.txt"
