#!/bin/sh
# The programs with threads of tests/c under a sanitizer: sanitizers.sh thread|address...
#
# Library and programs are compiled for it, with the runtime of the Rust nightly (Rust's and gcc's instrumentation call
# the same functions). ThreadSanitizer sees the threads of one process; what passes between processes through shared
# memory it does not see: that is what the models (loom) are for.
. "$(dirname "$0")/common.sh"

target=$(rustc -vV | sed -n 's/^host: //p')
if ! sysroot=$(nightly_with rust-src); then
    say "sanitizers: skipped, $sysroot"
    exit 0
fi
[ -x "$DIST/bin/mpiexec" ] || fail "sanitizers: install first (sh scripts/install.sh $DIST)"

for sanitizer in "$@"; do
    # ThreadSanitizer needs a standard library that is compiled for it as well: it has to see the locks and channels there.
    case $sanitizer in
        thread) runtime=tsan std=-Zbuild-std=std,panic_abort ;;
        address) runtime=asan std= ;;
        *) fail "sanitizers.sh: $sanitizer is neither thread nor address" ;;
    esac
    runtime=$sysroot/lib/rustlib/$target/lib/librustc-nightly_rt.$runtime.a
    if [ ! -f "$runtime" ]; then
        say "sanitizer $sanitizer: skipped, the nightly has no $runtime"
        continue
    fi
    build=$CARGO_TARGET/sanitizer/$sanitizer
    # shellcheck disable=SC2086 # none or one
    step "$sanitizer-build" env RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR="$build" \
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        cargo +nightly build --release --locked -p mica-mpi5 $std --target "$target"

    # An installation whose mpicc compiles for the sanitizer.
    prefix=$build/dist
    rm -rf "$prefix"
    mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/include"
    cp "$DIST/bin/mpiexec" "$prefix/bin/mpiexec"
    cp "$DIST/bin/mpicc" "$prefix/bin/mpicc-plain"
    cp include/mpi.h "$prefix/include/mpi.h"
    cp "$build/$target/release/libmpi_abi.so" "$prefix/lib/libmpi_abi.so.1"
    ln -s libmpi_abi.so.1 "$prefix/lib/libmpi_abi.so"
    cat >"$prefix/bin/mpicc" <<END
#!/bin/sh
exec "$prefix/bin/mpicc-plain" -fsanitize=$sanitizer -fno-omit-frame-pointer -nodefaultlibs "\$@" \\
    -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive -rdynamic \\
    -lgcc -lgcc_s -lc -lm -ldl -lpthread -lrt
END
    chmod 755 "$prefix/bin/mpicc"
    # Of the whole workspace, so that the features, and what is compiled, are those of `make test`.
    # shellcheck disable=SC2086 # several words
    step "$sanitizer-sanitizer" env MICA_SANITIZER="$sanitizer" MICA_PREFIX="$prefix" \
        cargo test --workspace $WITHOUT_TESTS --locked --test jobs -- sanitizers:: --nocapture
    results "$sanitizer-sanitizer"
done
