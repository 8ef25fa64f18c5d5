#!/bin/sh
# `make run`: from a fresh machine to MPI programs that run.
. "$(dirname "$0")/common.sh"

sh scripts/setup.sh
sh scripts/install.sh "$DIST"
sh scripts/mpi4py.sh
PATH=$DIST/bin:$VENV/bin:$PATH
export PATH

shown "this machine" mica info
shown "mpi4py's helloworld" mpiexec -n 4 python -m mpi4py.bench helloworld
shown "mpi4py's ringtest" mpiexec -n 4 python -m mpi4py.bench ringtest
# Its own limit is 1 GiB, for which a small machine has neither the memory nor the patience.
shown "mpi4py's pingpong" mpiexec -n 4 python -m mpi4py.bench pingpong --max-size 16777216
mkdir -p "$BUILD/examples"
shown "compile the example" mpicc -O2 -Wall -o "$BUILD/examples/heat2d" examples/heat2d.c -lm
shown "2-D heat equation on 4 ranks, and what moved over which channel" \
    mpiexec -n 4 -x MICA_STATS=table "$BUILD/examples/heat2d"
if "$DIST/bin/mpifort" --showme:compile >/dev/null 2>&1; then
    shown "compile the example in Fortran" mpifort -O2 -o "$BUILD/examples/heat" examples/heat.f90
    shown "the same by Fortran, whose halo is a section of an array" mpiexec -n 4 "$BUILD/examples/heat"
else
    say "the example in Fortran is left out: no compiler of Fortran is here"
fi
say "all done; to use it yourself: export PATH=$DIST/bin:\$PATH"
