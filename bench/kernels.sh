# shellcheck shell=sh disable=SC2034 # variables are for the scripts that read this
# The kernels that profiles are made of: read by ma2011.sh and profile_cost.sh (`. bench/kernels.sh`).
#
# PREFIX is an installation of Mica: unless set, the one that this file belongs to, or target/dist of the source tree. TARGET has what is
# made: target of the source tree, or ~/.cache/mica as for `mica bench`. WORK is where programs are compiled, PYTHON the Python of the
# environment for mpi4py-fft. FFTW_ROOT has FFTW's include and lib where the system does not.
set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
if [ -d "$ROOT/crates/mica" ]; then
    PREFIX=${PREFIX:-$ROOT/target/dist}
    TARGET=${TARGET:-$ROOT/target}
else
    PREFIX=${PREFIX:-$(cd "$ROOT/../.." && pwd)}
    TARGET=${TARGET:-${XDG_CACHE_HOME:-$HOME/.cache}/mica}
fi
WORK=$TARGET/kernels
PYTHON=$WORK/venv/bin/python
# For Python's extensions, which do not say where MPI is.
export LD_LIBRARY_PATH="$PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ -n "${FFTW_ROOT-}" ]; then
    export LD_LIBRARY_PATH="$FFTW_ROOT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# counts ARGUMENTS: sets `ranks` by the option -n and `rounds` by -r. The caller shifts by OPTIND - 1.
counts() {
    while getopts n:r: option; do
        case $option in
            n) ranks=$OPTARG ;;
            r) rounds=$OPTARG ;;
            *) exit 2 ;;
        esac
    done
}

[ -x "$PREFIX/bin/mica" ] || fail "no installation of Mica in $PREFIX: set PREFIX"

# compile NAME: bench/src/NAME.c into $WORK/NAME, with call sites that have lines.
compile() {
    mkdir -p "$WORK"
    "$PREFIX/bin/mpicc" -std=gnu11 -O2 -g -pthread -o "$WORK/$1" "$ROOT/bench/src/$1.c" -lm || fail "cannot compile $1.c"
}

# kernels RANKS: a line for each kernel, its name and its command behind mpiexec.
kernels() {
    for name in fft_transpose integer_sort cg heat cpmd; do
        compile $name
    done
    echo "fft-transpose -n $1 $WORK/fft_transpose L"
    echo "integer-sort -n $1 $WORK/integer_sort L"
    echo "cg -n $1 $WORK/cg 64"
    echo "heat -n $1 $WORK/heat 1024"
    echo "cpmd -n $1 $WORK/cpmd 24K 120"
    if [ -x "$PYTHON" ] && "$PYTHON" -c 'import mpi4py_fft' 2>/dev/null; then
        echo "mpi4py-fft -n $1 $PYTHON $ROOT/bench/src/fft_python.py"
    fi
}

# python_environment: mpi4py, compiled against Mica, and mpi4py-fft from PyPI in $WORK/venv. Prints why not where it cannot be
# made; the kernel is left out then.
python_environment() {
    if "$PYTHON" -c 'import mpi4py_fft' 2>/dev/null; then
        return
    fi
    log=$WORK/venv.log
    mkdir -p "$WORK"
    if ! echo '#include <fftw3.h>' | cc ${FFTW_ROOT:+-I"$FFTW_ROOT/include"} -E - >"$log" 2>&1; then
        echo "mpi4py-fft is left out: it needs FFTW's headers (Debian: libfftw3-dev), or FFTW_ROOT where they are" >&2
        return
    fi
    pip="$WORK/venv/bin/pip --disable-pip-version-check"
    { python3 -m venv "$WORK/venv" && $pip install numpy Cython wheel 'setuptools<81' &&
        MPICC="$PREFIX/bin/mpicc" CFLAGS='-O0 -g0' $pip install --no-build-isolation --no-binary mpi4py mpi4py &&
        CC="$PREFIX/bin/mpicc" $pip install --no-build-isolation mpi4py-fft; } >"$log" 2>&1 ||
        echo "mpi4py-fft is left out: it cannot be installed, $log says why; its end: $(tail -n 1 "$log")" >&2
}
