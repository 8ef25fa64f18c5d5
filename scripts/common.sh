# Read by the other scripts (`. scripts/common.sh`): where things are, and how a step is shown.

set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT"
BUILD=$ROOT/target                          # everything that is made, the venv included
CARGO_TARGET=${CARGO_TARGET_DIR:-$BUILD}    # what cargo makes
DIST=$BUILD/dist                            # the installation that tests and `make run` use
VENV=$BUILD/venv
LOGS=$BUILD/logs
mkdir -p "$LOGS"

say() {
    printf '== %s\n' "$*"
}

fail() {
    printf '== FAILED: %s\n' "$*" >&2
    exit 1
}

# step NAME COMMAND...: a command whose output goes to target/logs/NAME.log; its end is shown when
# the command fails.
step() {
    step_name=$1
    shift
    step_log=$LOGS/$step_name.log
    step_start=$(date +%s)
    if "$@" >"$step_log" 2>&1 </dev/null; then
        say "$step_name: done in $(($(date +%s) - step_start)) s"
    else
        step_status=$?
        tail -n 60 "$step_log" >&2
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

version() {
    sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1
}
