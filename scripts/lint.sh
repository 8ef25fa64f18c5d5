#!/bin/sh
# `make lint`: what can be said of the sources without building the library: format, layers and circles, names, lengths of lines and
# functions, documents, shell scripts, and clippy. Each prints all that it finds, and all of them run.
. "$(dirname "$0")/common.sh"

bad=
# each NAME COMMAND...: a step whose failure lets the others run.
each() {
    (step "$@") || bad="$bad $1"
}
sh scripts/setup.sh lint
each format cargo fmt --all --check
each structure cargo test --locked -p mica-structure --lib
if command -v shellcheck >/dev/null; then
    each shellcheck shellcheck -x -P scripts:bench scripts/*.sh wrappers/mpicc wrappers/mpifort.sh wrappers/front bindings/*.sh bench/*.sh packaging/*/*.sh packaging/debian/*.p*
fi
each clippy cargo clippy --workspace --all-targets --locked -- -D warnings
[ -z "$bad" ] || fail "lint:$bad; see above"
