#!/bin/sh
# `make wheel-test`: shows that what `make wheel` has made works, in Python environments of its own below target/wheel: with mpi4py and numpy
# from PyPI, moved, beside MPICH's wheel, and taken back; and that for aarch64, if it was made, under qemu-user. Needs the network. Two minutes.
. "$(dirname "$0")/common.sh"

MPICH=5.0.2
wheels=$BUILD/wheel
try=$wheels/try

# has COUNT TEXT COMMAND...: the command succeeds, and prints the text this many times (MPICH's mpiexec mixes lines of ranks).
has() {
    count=$1 text=$2
    shift 2
    say "$*"
    "$@" >"$LOGS/wheel-test.out" 2>&1 </dev/null || {
        cat "$LOGS/wheel-test.out"
        fail "status $?: $*"
    }
    cut -c 1-160 "$LOGS/wheel-test.out" | head -n 8
    [ "$(grep -o -- "$text" "$LOGS/wheel-test.out" | wc -l)" = "$count" ] || fail "not $count times '$text': $*"
}
# environment NAME PACKAGE...: a new one, with these packages; it becomes the first in PATH.
environment() {
    rm -rf "$1"
    python3 -m venv "$1"
    (cd "$1" && find . | sort) >"$1.before"
    PATH=$1/bin:$clean_path
    add "$@"
}
add() {
    shift
    say "pip install $*"
    pip install --quiet --disable-pip-version-check "$@"
}
library='from mpi4py import MPI; print(MPI.COMM_WORLD.rank, MPI.Get_library_version().splitlines()[0])'

clean_path=$PATH
unset LD_LIBRARY_PATH MPI4PY_LIBMPI MPI4PY_MPIABI
wheel=$(echo "$wheels/mica_mpi-$(version)"-py3-none-manylinux_*_"$(uname -m).whl")
[ -f "$wheel" ] || fail "there is no $wheel: make wheel"

environment "$try" "$wheel" mpi4py numpy
has 4 "Hello, World! I am process" mpiexec -n 4 python -m mpi4py.bench helloworld
has 4 " Mica " mpiexec -n 4 python -c "$library"
has 1 " Mica " python -c "$library"
has 3 "^\[6. 6.\]" mpiexec -n 3 python -c '
from mpi4py import MPI; import numpy
sums = numpy.empty(2); MPI.COMM_WORLD.Allreduce(numpy.full(2, 2.0), sums); print(sums)'
# Over the network, for which libfabric is loaded where it is there.
has 2 " Mica " env MICA_VIRTUAL_NODES=2 mpiexec -n 2 python -c "$library"
mpicc -O2 examples/hello.c -o "$wheels/hello"
has 4 "hello from rank" mpirun -n 4 "$wheels/hello"
# A program that knows nothing of lib/mica-mpi.
cc -O2 "-I$try/include" examples/hello.c -o "$wheels/hello" "-L$try/lib" -lmpi_abi "-Wl,-rpath,$try/lib"
has 2 "hello from rank" mpiexec -n 2 "$wheels/hello"
has 1 "$try/lib/mica-mpi/lib/libmpi_abi.so.1" mica version
has 0 "not this installation" sh -c 'mica doctor || [ $? = 1 ]'
has 0 "hwloc\|udev\|fabric" readelf -d "$try"/lib/mica-mpi/bin/mica "$try"/lib/mica-mpi/bin/mpiexec "$try"/lib/mica-mpi/lib/*.so.*
has 1 "profile.json" sh -c "cd $wheels && rm -rf mica-profile && mica profile -- mpiexec -n 2 $wheels/hello && ls mica-profile"
# What `mica tune` runs.
has 1 '"bytes": 8' mpiexec -n 2 "$try/lib/mica-mpi/libexec/mica/calibrate" 0.01 8

say "pip uninstall"
pip uninstall --quiet --yes mica-mpi mpi4py numpy
# What Python has compiled stays where Python keeps it.
(cd "$try" && find . -not -name __pycache__ -not -name '*.pyc' | sort) >"$try.after"
has 0 . comm -13 "$try.before" "$try.after"

# Beside MPICH, which was installed later: its files have the names in bin, lib and include. The line of docs/wheel.md chooses.
by_mica() {
    home=$try/lib/mica-mpi
    env PATH="$home/bin:$PATH" LD_LIBRARY_PATH="$home/lib" MPI4PY_LIBMPI="$home/lib/libmpi.so.12" "$@"
}
environment "$try" "$wheel" mpi4py
add "$try" "mpich==$MPICH"
has 2 " MPICH " mpiexec -n 2 python -c "$library"
has 2 " Mica " by_mica mpiexec -n 2 python -c "$library"
# A program of MPICH's ABI, compiled by MPICH.
"$try/bin/mpicc" -Wl,-rpath,"$try/lib" examples/hello.c -o "$wheels/hello" 2>/dev/null
has 1 "libmpi.so.12 => $try/lib/mica-mpi/lib/libmpi.so.12" by_mica ldd "$wheels/hello"
has 2 "hello from rank" by_mica mpiexec -n 2 "$wheels/hello"
# And Mica after MPICH: it has the names now.
add "$try" --force-reinstall --no-deps "$wheel"
has 2 " Mica " mpiexec -n 2 python -c "$library"

# Moved as a whole: the commands find what is theirs.
rm -rf "$try.moved"
mv "$try" "$try.moved"
PATH=$clean_path "$try.moved/bin/mpicc" examples/hello.c -o "$wheels/hello"
has 2 "hello from rank" env PATH="$clean_path" "$try.moved/bin/mpiexec" -n 2 "$wheels/hello"
rm -rf "$try.moved"

# The other architecture, where qemu-user runs programs of it.
other_wheel=$(echo "$wheels/mica_mpi-$(version)"-py3-none-manylinux_*_aarch64.whl)
root=/usr/aarch64-linux-gnu
if [ ! -f "$other_wheel" ] || [ "$(uname -m)" = aarch64 ]; then
    say "aarch64: skipped, there is no wheel for it (make wheel ARCH=aarch64)"
elif ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    say "aarch64: skipped, qemu-user or gcc-aarch64-linux-gnu with libc6-dev-arm64-cross is not there"
else
    other=$wheels/other
    rm -rf "$other"
    mkdir -p "$other"
    python3 -m zipfile -e "$other_wheel" "$other"
    home=$(echo "$other"/mica_mpi-*.data/data/lib/mica-mpi)
    chmod 755 "$home"/bin/*
    MICA_CC=aarch64-linux-gnu-gcc "$home/bin/mpicc" examples/hello.c -o "$other/hello"
    has 1 "hello from rank 0 of 1" qemu-aarch64 -L $root "$other/hello"
    # By the mpiexec of this machine's wheel: that for aarch64 starts nothing in an emulator, whose threads it takes for its own.
    environment "$try" "$wheel"
    has 3 "hello from rank" mpiexec -n 3 qemu-aarch64 -L $root "$other/hello"
    has 1 "Mica" qemu-aarch64 -L $root "$home/bin/mpiexec" --version
    has 1 "aarch64-unknown-linux-gnu" qemu-aarch64 -L $root "$home/bin/mica" version
    rm -rf "$other"
fi
rm -rf "$try" "$try.before" "$try.after" "$wheels/hello" "$wheels/mica-profile"
say "the wheel works"
