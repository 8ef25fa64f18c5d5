#!/bin/sh
# What shows that claims hold, besides the tests:
#
#   proof.sh PROOF...       these (deny, loom, loom:MODULES, miri-memory, miri-node, miri-objects, thread, address, aarch64); all without any
#   proof.sh since [REV]    prints those that the changes since REV need (scripts/proofs_of.sh), or since the last full run; all if that
#                           is not known
#   proof.sh all            prints all
#   proof.sh stamp          notes that all of them have passed for the commit that is checked out
#   proof.sh faults [NAME]  makes each deliberate fault of tests/proofs in a copy of the sources, and runs the proofs that its paths
#                           select: one must find it
#   proof.sh fuzz           the long run of the fuzz targets
#
# Each proof says why it is skipped where its tool cannot be had. Tools that cargo installs lie in target/tools.
. "$(dirname "$0")/common.sh"
. "$ROOT/scripts/proofs_of.sh"

# The last full run: the commit, and the compiler.
STAMP=$ROOT/tests/proofs/last-full-run

CARGO_DENY=0.20.2
CARGO_FUZZ=0.13.2
TOOLS=$BUILD/tools
PATH=$TOOLS/bin:$PATH

# tool NAME VERSION: installs it with cargo unless this version is there already, here or on PATH. Not optimised: it runs for a
# second, and compiles for minutes.
tool() {
    if [ "$("$1" --version 2>/dev/null)" = "$1 $2" ]; then
        return 0
    fi
    tool_start=$(date +%s)
    if CARGO_PROFILE_DEV_DEBUG=false cargo install "$1" --version "$2" --locked --debug --root "$TOOLS" --target-dir "$TOOLS/build" \
        >"$LOGS/$1-install.log" 2>&1 </dev/null; then
        rm -rf "$TOOLS/build"
        say "$1 $2: installed in $(($(date +%s) - tool_start)) s"
    else
        say "$1: cargo cannot install it: $(grep -m 1 '^error' "$LOGS/$1-install.log")"
        return 1
    fi
}

# It takes ten minutes of a core to compile, so a brief run has it only where it is; the test of licences runs always.
deny() {
    if [ -n "${MICA_BRIEF-}" ] && ! command -v cargo-deny >/dev/null; then
        say "cargo-deny: skipped, it is not installed; sh scripts/proof.sh deny installs it"
        return 0
    fi
    if ! tool cargo-deny "$CARGO_DENY"; then
        say "cargo-deny: skipped"
        return 0
    fi
    step cargo-deny cargo-deny --all-features --locked check --hide-inclusion-graph licenses bans sources
    say "cargo-deny: licences, bans and sources; advisories are not asked (deny.toml says why)"
}

# loom [MODULE...]: interleavings of the shared-memory primitives in these modules, or in all. loom replaces the atomics of the whole
# build, so it has a build directory of its own.
loom() {
    [ $# != 0 ] || set -- model
    step loom env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$CARGO_TARGET/loom" \
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo test --release --locked -p mica-node --lib -- "$@"
    results loom
    if ! grep -qE '^test result: ok. [1-9]' "$LOGS/loom.log"; then
        fail "loom: no model ran"
    fi
}

# since [REV]: the proofs that the changes since REV need, those in the work tree among them.
since() {
    if [ $# = 0 ]; then
        [ -f "$STAMP" ] || { echo "$ALL_PROOFS"; return; }
        read -r since_commit since_compiler <"$STAMP"
        # Another compiler may break what no change of ours does.
        [ "$since_compiler" = "$(rustc --version)" ] || { echo "$ALL_PROOFS"; return; }
        set -- "$since_commit"
    fi
    if ! git merge-base --is-ancestor "$1" HEAD 2>/dev/null; then
        echo "$ALL_PROOFS"
        return
    fi
    # Lines of comments in Rust change nothing that a proof could find.
    {
        git diff --numstat --no-renames -I'^[[:space:]]*//' "$1" -- '*.rs' | cut -f3
        git diff --name-only --no-renames "$1" -- . ':!*.rs'
        git ls-files --others --exclude-standard
    } | proofs_of_all
}

stamp() {
    if [ -n "$(git status --porcelain)" ]; then
        say "no stamp: the work tree has changes that are not committed"
        return
    fi
    printf '%s %s\n' "$(git rev-parse HEAD)" "$(rustc --version)" >"$STAMP"
    say "all proofs have passed; commit ${STAMP#"$ROOT"/}"
}

# faults [NAME...]: each fault in a copy of the sources with a build directory that all of them share; a proof must fail.
faults() {
    if [ $# = 0 ]; then
        for fault in tests/proofs/*.patch; do
            fault=${fault##*/}
            set -- "$@" "${fault%.patch}"
        done
    fi
    fault_tree=$BUILD/faults/tree
    missed=
    for fault in "$@"; do
        rm -rf "$fault_tree"
        mkdir -p "$fault_tree"
        git ls-files -z | xargs -0 cp --parents -t "$fault_tree"
        ln -s "$BUILD/faults/target" "$fault_tree/target"
        mkdir -p "$BUILD/faults/target"
        ln -sfn "$DIST" "$BUILD/faults/target/dist"
        (cd "$fault_tree" && patch -p1 --quiet <"$ROOT/tests/proofs/$fault.patch") || fail "faults: $fault.patch does not apply"
        fault_proofs=$(sed -n 's/^+++ b\///p' "tests/proofs/$fault.patch" | proofs_of_all)
        found=
        for proof in $fault_proofs; do
            (cd "$fault_tree" && MICA_BRIEF=1 sh scripts/proof.sh "$proof") >"$LOGS/fault-$fault-$proof.log" 2>&1 || found="$found $proof"
        done
        say "fault $fault: $fault_proofs: found by${found:- NONE}"
        [ -n "$found" ] || missed="$missed $fault"
    done
    [ -z "$missed" ] || fail "faults that no proof found:$missed"
}

# The long run of the fuzz targets (`make fuzz`): FUZZ_SECONDS for each target, those in FUZZ_TARGETS or all.
fuzz() {
    if ! sysroot=$(nightly_with rust-src); then
        fail "fuzz: $sysroot"
    fi
    tool cargo-fuzz "$CARGO_FUZZ" || fail "fuzz: there is no cargo-fuzz"
    targets=${FUZZ_TARGETS:-$(ls fuzz/corpus)}
    for target in $targets; do
        # Link-time optimisation loses symbols of the coverage counters. What is found grows a copy of the corpus; inputs that fail are in target/fuzz.
        mkdir -p "$BUILD/fuzz/corpus/$target" "$BUILD/fuzz/failed/$target"
        step "fuzz-$target" env RUSTUP_TOOLCHAIN=nightly CARGO_PROFILE_RELEASE_LTO=off \
            cargo-fuzz fuzz run --features libfuzzer --fuzz-dir fuzz --target-dir "$BUILD/fuzz/build" "$target" "$BUILD/fuzz/corpus/$target" "fuzz/corpus/$target" -- \
            -max_total_time="${FUZZ_SECONDS:-300}" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
            -artifact_prefix="$BUILD/fuzz/failed/$target/"
        grep -E '^(Done|stat::)' "$LOGS/fuzz-$target.log" || true
    done
}

case ${1-} in
    all) echo "$ALL_PROOFS"; exit ;;
    since | stamp | faults | fuzz) "$@"; exit ;;
    '')
        sh scripts/setup.sh
        sh scripts/install.sh "$DIST"
        # shellcheck disable=SC2086 # a list
        set -- $ALL_PROOFS
        ;;
esac
for proof in "$@"; do
    case $proof in
        deny | loom) "$proof" ;;
        loom:*)
            modules=$(echo "${proof#loom:}" | sed 's/\([a-z_]*\),*/\1:: /g')
            # shellcheck disable=SC2086 # a list
            loom $modules
            ;;
        miri-*) sh scripts/miri.sh "${proof#miri-}" ;;
        aarch64) sh scripts/aarch64.sh ;;
        thread | address) sh scripts/sanitizers.sh "$proof" ;;
        *) fail "proof.sh: there is no proof $proof" ;;
    esac
done
