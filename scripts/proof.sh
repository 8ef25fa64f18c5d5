#!/bin/sh
# What shows that claims hold, besides the tests: `proof.sh STEP...`, or all of them in order. Each says why it is skipped
# where its tool cannot be had. Tools that cargo installs lie in target/tools.
. "$(dirname "$0")/common.sh"

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

shell() {
    if ! command -v shellcheck >/dev/null; then
        say "shellcheck: skipped, it is not there (Debian: shellcheck)"
        return 0
    fi
    step shellcheck shellcheck -x -P scripts:bench scripts/*.sh wrappers/mpicc bindings/*.sh bench/*.sh
}

# The documentation is for who works on the code: of private items, too, to which public ones may link then.
doc() {
    step doc env RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --locked
}

deny() {
    if ! tool cargo-deny "$CARGO_DENY"; then
        say "cargo-deny: skipped"
        return 0
    fi
    step cargo-deny cargo-deny --all-features --locked check --hide-inclusion-graph licenses bans sources
    say "cargo-deny: licences, bans and sources; advisories are not asked (deny.toml says why)"
}

# Interleavings of the shared-memory primitives. loom replaces the atomics of the whole build, so
# it has a build directory of its own.
loom() {
    step loom env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$CARGO_TARGET/loom" \
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo test --release --locked -p mica-node --lib model
    results loom
    if ! grep -qE '^test result: ok. [1-9]' "$LOGS/loom.log"; then
        fail "loom: no model ran"
    fi
}

# What the steps use, which say so where it is missing: a linter of shell scripts, and what compiles and runs programs for
# the other architecture.
missing_tools() {
    missing=
    need shellcheck shellcheck --version
    need qemu-user qemu-aarch64 --version
    need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc --version
    need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/lib/libc.so.6
    echo "$missing"
}
tools() {
    missing=$(missing_tools)
    if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        # shellcheck disable=SC2086 # a list
        { apt-get update && apt-get install -y --no-install-recommends $missing; } \
            >"$LOGS/apt-proof.log" 2>&1 </dev/null || true
        missing=$(missing_tools)
    fi
    if [ -n "$missing" ]; then
        say "for scripts/proof.sh:$missing not there, and cannot be installed here"
    else
        say "for scripts/proof.sh: all there"
    fi
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

if [ $# = 0 ]; then
    sh scripts/setup.sh
    sh scripts/install.sh "$DIST"
    tools
    set -- shell doc deny loom miri thread address aarch64
fi
for proof in "$@"; do
    case $proof in
        tools | shell | doc | deny | loom | fuzz) "$proof" ;;
        miri | aarch64) sh "scripts/$proof.sh" ;;
        thread | address) sh scripts/sanitizers.sh "$proof" ;;
        *) fail "proof.sh: there is no step $proof" ;;
    esac
done
