# shellcheck shell=sh disable=SC2034 # variables are for the scripts that read this
# Read by the other scripts (`. scripts/common.sh`): where things are, and how a step is shown.

set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT"
# Everything that is made, the venv included: below the source tree, or in the directory that MICA_BUILD names, if it cannot be written to.
BUILD=${MICA_BUILD:-target}
case $BUILD in
    /*) ;;
    *) BUILD=$ROOT/$BUILD ;;
esac
[ -z "${MICA_BUILD-}" ] || export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$BUILD}"
CARGO_TARGET=${CARGO_TARGET_DIR:-$BUILD}    # what cargo makes
DIST=$BUILD/dist                            # the installation that tests and `make run` use
VENV=$BUILD/venv
LOGS=$BUILD/logs
# How mpiexec and mica are compiled: a profile of Cargo.toml, and its directory below $CARGO_TARGET.
COMMANDS_PROFILE=${MICA_COMMANDS_PROFILE:-commands}
COMMANDS=$CARGO_TARGET/$COMMANDS_PROFILE
LIBRARIES='-p mica-mpi5 -p mica-mpich -p mica-fortran -p mica-mpich-fortran'    # the crates of the libraries that programs are linked with
WITHOUT_TESTS='--exclude mica-mpi5 --exclude mica-mpich-fortran'    # libraries that cannot be linked as programs, and have no tests of their own
[ "$COMMANDS_PROFILE" != dev ] || COMMANDS=$CARGO_TARGET/debug
mkdir -p "$LOGS" 2>/dev/null || true        # setup.sh says it if that cannot be

say() {
    printf '== %s\n' "$*"
}

# milliseconds: the time, of which only differences count.
milliseconds() {
    date +%s%3N
}

fail() {
    printf '== FAILED: %s\n' "$*" >&2
    exit 1
}

# failures NAME: of a step that ran tests, what each failed test said first. Many who look see only the last lines of a run.
failures() {
    awk '/^---- / && !/^----$/ { print; lines = 6; next } lines > 0 && NF { print "    " $0; lines-- }' "$LOGS/$1.log" | cut -c 1-400
}

# processor_seconds FILE: the processor time of children between two outputs of `times` in the file.
processor_seconds() {
    awk 'NR % 2 == 0 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); used[NR] += 60 * t[1] + t[2] } }
        END { printf "%.1f\n", used[4] - used[2] }' "$1"
}

# Seconds that a step may take, twice what the longest takes on two cores: a test that waits forever must not take the run's own limit.
STEP_LIMIT=${STEP_LIMIT:-2500}

# descendants PID: the process and all that it started, one a line.
descendants() {
    ps -eo pid=,ppid= | awk -v root="$1" '{ parent[$1] = $2 }
        END { for (p in parent) for (a = p; a in parent; a = parent[a]) if (a == root) { print p; break } }'
}

# end_after SECONDS FILE: ends the process whose number is in the file, and what it started, if it still runs then; says first what they
# were waiting for. Looks every five seconds whether it does: it can have been interrupted.
end_after() {
    end_left=$1
    while [ "$end_left" -gt 0 ]; do
        sleep 5
        kill -0 "$(cat "$2" 2>/dev/null)" 2>/dev/null || return 0
        end_left=$((end_left - 5))
    done
    end_pids=$(descendants "$(cat "$2")")
    echo "== no end after $1 s; its threads, by process, with the function of the kernel they wait in:"
    for end_pid in $end_pids; do
        echo "$end_pid $(tr '\0' ' ' <"/proc/$end_pid/cmdline" | cut -c 1-160)"
        for end_task in "/proc/$end_pid/task"/*; do
            echo "    $(cat "$end_task/comm") $(cut -d ' ' -f 3 "$end_task/stat") $(cat "$end_task/wchan") syscall $(cut -d ' ' -f 1-4 "$end_task/syscall")"
        done
    done 2>/dev/null
    # shellcheck disable=SC2086 # a list
    kill -KILL $end_pids
}

# step NAME COMMAND...: a command or a function whose output goes to target/logs/NAME.log; its end, and what its failed tests said, is shown when
# the command fails or does not end. The processor's seconds are what a run with two cores has to save.
step() {
    step_name=$1
    shift
    step_log=$LOGS/$step_name.log
    step_start=$(milliseconds)
    times >"$LOGS/$step_name.times"
    : >"$step_log"
    end_after "$STEP_LIMIT" "$LOGS/$step_name.pid" >>"$step_log" 2>&1 </dev/null &
    # In the foreground: an interrupt from the terminal reaches the command, which may be a function. The subshell's number is what its
    # child has as its parent's.
    # shellcheck disable=SC2016 # the child's
    if (
        sh -c 'echo $PPID' >"$LOGS/$step_name.pid"
        "$@"
    ) >>"$step_log" 2>&1 </dev/null; then
        step_status=0
    else
        step_status=$?
    fi
    rm -f "$LOGS/$step_name.pid"
    if [ $step_status = 0 ]; then
        times >>"$LOGS/$step_name.times"
        step_core=$(processor_seconds "$LOGS/$step_name.times")
        step_wall=$(awk "BEGIN { printf \"%.1f\", ($(milliseconds) - $step_start) / 1000 }")
        say "$step_name: done in $step_wall s, $step_core s of a core"
        [ ! -d "$LOGS/times" ] || printf '{"group":"steps","name":"%s","wall":%s,"core":%s}\n' \
            "$step_name" "$step_wall" "$step_core" >>"$LOGS/times/steps.jsonl"
    else
        tail -n 60 "$step_log" | cut -c 1-500 >&2
        failures "$step_name" >&2
        fail "$step_name (status $step_status): $*; all of its output is in $step_log"
    fi
}

# shown NAME COMMAND...: a command whose output is the point.
shown() {
    shown_name=$1
    shift
    say "$shown_name: $*"
    "$@" || fail "$shown_name (status $?): $*"
}

# results NAME: what cargo says of the tests of a step.
results() {
    grep -E '^ +(Running|Doc-tests)|^test result' "$LOGS/$1.log" | sed 's/^ */   /'
}

# nightly_with COMPONENT...: the sysroot of Rust's nightly, with these components; installs what is missing. If that
# cannot be had, says why on standard output, with status 1.
nightly_with() {
    if ! command -v rustup >/dev/null; then
        echo "there is no rustup to install Rust's nightly"
        return 1
    fi
    if ! rustup toolchain list | grep -q '^nightly'; then
        if ! rustup toolchain install nightly --profile minimal >"$LOGS/nightly.log" 2>&1; then
            echo "rustup cannot install Rust's nightly: $(tail -n 1 "$LOGS/nightly.log")"
            return 1
        fi
    fi
    for component in "$@"; do
        if ! rustup component list --toolchain nightly --installed | grep -q "^$component"; then
            if ! rustup component add "$component" --toolchain nightly >"$LOGS/nightly.log" 2>&1; then
                echo "rustup cannot install nightly's $component: $(tail -n 1 "$LOGS/nightly.log")"
                return 1
            fi
        fi
    done
    rustc +nightly --print sysroot
}

version() {
    sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1
}

# installation PREFIX: the directory that the files of PREFIX go to: below DESTDIR, if that is set.
installation() {
    case ${DESTDIR-}$1 in
        /*) printf '%s\n' "${DESTDIR-}${1%/}" ;;
        *) printf '%s\n' "$ROOT/${DESTDIR-}${1%/}" ;;
    esac
}
