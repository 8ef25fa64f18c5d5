#!/bin/sh
# What `mica profile` costs: the kernels of bench/src without and with it, in percent, and a call, in nanoseconds.
#
#   bench/profile_cost.sh [-n RANKS] [-r ROUNDS]
#
# Rounds (11) alternate. Kernels run with 2 ranks unless -n says otherwise; the target is less than 2 % on a quiet machine. A
# call's cost is the difference of the medians of the rounds (bench/src/profile_cost.c). PREFIX is the installation of Mica
# (target/dist).
. "$(dirname "$0")/kernels.sh"

ranks=2
rounds=11
while getopts n:r: option; do
    case $option in
        n) ranks=$OPTARG ;;
        r) rounds=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || fail "expected options only"
mica=$PREFIX/bin/mica
mpiexec=$PREFIX/bin/mpiexec
python_environment
list=$(kernels "$ranks")

printf '%s\n' "$list" | while read -r name arguments; do
    echo "== $name"
    # shellcheck disable=SC2086 # words of a command
    "$mica" profile --overhead --rounds "$rounds" -- "$mpiexec" $arguments </dev/null 2>/dev/null || fail "$name failed"
done

# The program's lines among those of the report; `with` or `without` in front, then the measure's last word and its value.
figures() {
    sed -n "s/^{\"measure\": \"profile cost \([a-z]*\)\".*\"value\": \([0-9.e+]*\),.*/$1 \1 \2/p"
}

compile profile_cost
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
round=0
while [ $round -lt "$rounds" ]; do
    "$mpiexec" -n 1 "$WORK/profile_cost" >"$directory/out" || fail "profile_cost failed"
    figures without <"$directory/out" >>"$directory/figures"
    "$mica" profile --text -- "$mpiexec" -n 1 "$WORK/profile_cost" >"$directory/out" || fail "profile_cost failed"
    figures with <"$directory/out" >>"$directory/figures"
    round=$((round + 1))
done
echo "== a call (ns): without, with, difference; medians of $rounds rounds"
sort -k2,2 -k1,1 -k3,3g "$directory/figures" | awk '
    { key = $2 " " $1; values[key, ++count[key]] = $3; calls[$2] = 1 }
    function median(key) { return values[key, int((count[key] + 1) / 2)] }
    END {
        for (call in calls) {
            without = median(call " without"); with = median(call " with")
            printf "%-10s %8.1f %8.1f %8.1f\n", call, without, with, with - without
        }
    }'
