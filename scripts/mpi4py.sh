#!/bin/sh
# mpi4py, compiled from its sdist against our mpicc, into target/venv; its source, which has the
# test suite, into target/mpi4py-src. Needs setup.sh and an installation in target/dist.
. "$(dirname "$0")/common.sh"

VERSION=4.1.2
source=$BUILD/mpi4py-src
sdist=$BUILD/mpi4py-$VERSION.tar.gz
if [ ! -f "$sdist" ]; then
    step mpi4py-download "$VENV/bin/pip" download --disable-pip-version-check --no-deps \
        --no-build-isolation --no-binary mpi4py --dest "$BUILD" "mpi4py==$VERSION"
fi
if [ ! -f "$source/.version-$VERSION" ]; then
    rm -rf "$source" "$source.new"
    mkdir -p "$source.new"
    tar -xzf "$sdist" -C "$source.new" --strip-components=1
    touch "$source.new/.version-$VERSION"
    mv "$source.new" "$source"
fi

# Once compiled it works with any later library: that is what an ABI is for. It is compiled again
# only when the contract (mpi.h), the wrapper or the environment changes.
stamp=$VENV/.mpi4py
wanted=$(echo "$VERSION $DIST -O1"; cat "$VENV/.requirements"; cat include/mpi.h wrappers/mpicc | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    say "mpi4py $VERSION: up to date"
    exit 0
fi
# Warnings of the generated code are not our subject; time is. A little optimization costs a minute of a core,
# and takes a fifth to a quarter off each of the suite's seven runs.
step mpi4py env MPICC="$DIST/bin/mpicc" CFLAGS="-O1 -g0" "$VENV/bin/pip" install \
    --disable-pip-version-check --no-build-isolation --no-deps --no-cache-dir --force-reinstall \
    --no-binary mpi4py "$sdist"
printf '%s\n' "$wanted" >"$stamp"
