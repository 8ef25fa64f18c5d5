#!/bin/sh
# What `mica profile` costs: a call, in nanoseconds, and the kernels of bench/src, in percent by three measures: elapsed time and
# processor time without and with it, and the number of calls times what one costs (crates/mica/src/profile/overhead.rs).
#
#   bench/profile_cost.sh [-n RANKS] [-r ROUNDS]
#
# Rounds (11) alternate. Kernels run with 2 ranks unless -n says otherwise; the target is less than 2 % on a quiet machine. On a
# noisy one, where rounds differ by more than that, the third measure shows whether it is met: its interval goes from the lower
# quartile of the differences of the cheapest of three calls to the upper quartile of the dearest (bench/src/profile_cost.c), over
# all rounds. PREFIX is the installation of Mica (target/dist).
. "$(dirname "$0")/kernels.sh"

ranks=2
rounds=11
counts "$@"
shift $((OPTIND - 1))
[ $# -eq 0 ] || fail "expected options only"
mica=$PREFIX/bin/mica
mpiexec=$PREFIX/bin/mpiexec
python_environment
list=$(kernels "$ranks")

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
# "SIDE CALL VALUE" of all rounds to a line for each call: medians without and with, and the quartiles of the rounds' differences.
calls() {
    awk '
    { value[$2, $1, ++count[$2, $1]] = $3; calls[$2] = 1 }
    function sort(list, n,   i, j, x) {
        for (i = 2; i <= n; i++) {
            x = list[i]
            for (j = i - 1; j > 0 && list[j] > x; j--) list[j + 1] = list[j]
            list[j + 1] = x
        }
    }
    END {
        for (call in calls) {
            n = count[call, "with"]
            for (i = 1; i <= n; i++) {
                without[i] = value[call, "without", i]
                with[i] = value[call, "with", i]
                difference[i] = with[i] - without[i]
            }
            sort(without, n); sort(with, n); sort(difference, n)
            printf "%-10s %8.1f %8.1f %8.1f %8.1f\n", call, without[int((n + 1) / 2)], with[int((n + 1) / 2)],
                difference[int((n + 3) / 4)], difference[int((3 * n + 3) / 4)]
        }
    }' "$directory/figures"
}

echo "== a call (ns): medians without and with, lower and upper quartile of the differences of $rounds rounds"
calls | tee "$directory/calls"
cost=$(awk '
    NR == 1 || $4 < from { from = $4 }
    $5 > to { to = $5 }
    END { if (from < 0) from = 0; if (to < from) to = from; printf "%.1f,%.1f", from, to }' "$directory/calls")

printf '%s\n' "$list" | while read -r name arguments; do
    echo "== $name"
    # shellcheck disable=SC2086 # words of a command
    "$mica" profile --overhead --rounds "$rounds" --call-cost "$cost" -- "$mpiexec" $arguments </dev/null 2>/dev/null ||
        fail "$name failed"
done
