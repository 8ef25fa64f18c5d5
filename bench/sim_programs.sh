#!/bin/sh
# Builds the programs of the simulated experiments (`make experiments`):
#
#     sh bench/sim_programs.sh [DIR [NAME...]]     (default target/sim-programs and all; mpicc is that of PATH or $MPICC)
#
# traverse, jacobi, collectives, integer_sort: ours (bench/src). hpl: HPC Challenge's HPL, for bench/chai2009.sh.
# fft: HPC Challenge's MPIFFT (leon-2009, 4.3.2). amg: hypre's driver ij, whose AMG-preconditioned
# conjugate gradient is what the Sequoia benchmark AMG was made of (4.3.1). Both are built from
# Debian's source packages, unchanged, with the region of interest marked by the linker's --wrap
# (bench/sim). Sources come from Debian's archive through a source list of their own; the system's
# lists are not touched. The first build takes some minutes, most of them for hypre.
#
# Code for Power5 has no vectors of integers or doubles, so the compiler makes none here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-target/sim-programs}
[ $# = 0 ] || shift
names=${*:-traverse jacobi collectives integer_sort fft hpl amg}
mpicc=${MPICC:-mpicc}
flags="-O2 -fno-tree-vectorize"
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=bookworm

say() { echo "sim_programs: $*"; }
die() { echo "sim_programs: $*" >&2; exit 1; }
command -v "$mpicc" >/dev/null || die "no $mpicc; put Mica's bin first in PATH, or set MPICC"
mkdir -p "$out/sources"
out=$(cd "$out" && pwd)

# Downloads and unpacks the upstream sources of a Debian package, checked by apt's signatures.
fetch() {
    set -- "$1" "$out/sources/apt"
    ls -d "$out/sources/$1"-[0-9]* >/dev/null 2>&1 && return
    command -v apt-get >/dev/null ||
        die "no apt-get; unpack the sources of $1 as $out/sources/$1-VERSION"
    mkdir -p "$2/lists/partial" "$2/cache/archives/partial"
    echo "deb-src $mirror $suite main" >"$2/sources.list"
    say "getting the sources of $1"
    apt_options="-qq -o Dir::Etc::sourcelist=$2/sources.list -o Dir::Etc::sourceparts=-
        -o Dir::State::lists=$2/lists -o Dir::Cache=$2/cache -o APT::Sandbox::User=root"
    (
        cd "$out/sources"
        # shellcheck disable=SC2086
        apt-get $apt_options update
        # shellcheck disable=SC2086
        apt-get $apt_options source --download-only --tar-only "$1"
        tar xf "$1"_*.orig.tar.*
    )
}

# Compiles and links by way of a new name: a program that runs keeps the file that it has.
build() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$mpicc" $flags -pthread -o "$out/$name.new" "$@" -lm
    mv -f "$out/$name.new" "$out/$name"
    say "built $out/$name"
}

# wanted NAME: whether the program is to be built.
wanted() {
    case " $names " in
        *" $1 "*) ;;
        *) return 1 ;;
    esac
}

for name in traverse jacobi collectives integer_sort; do
    if wanted $name; then
        build "$name" -std=gnu11 "$here/src/$name.c"
    fi
done

if wanted fft || wanted hpl; then
    fetch hpcc
    hpcc=$(ls -d "$out"/sources/hpcc-[0-9]*)
fi
wanted fft && build fft -std=gnu11 -w -DHPL_CALL_CBLAS -I"$hpcc/include" -I"$hpcc/FFT" -I"$hpcc/hpl/include" \
    -Wl,--wrap=HPCC_fftw_mpi "$here/sim/fft.c" "$here/sim/account.c" "$hpcc"/FFT/fft235.c \
    "$hpcc"/FFT/zfft1d.c "$hpcc"/FFT/pzfft1d.c "$hpcc"/FFT/bcnrand.c "$hpcc"/FFT/mpifft.c \
    "$hpcc"/FFT/wrapmpifftw.c "$hpcc"/FFT/wrapfftw.c "$hpcc"/hpl/src/auxil/HPL_dlamch.c

# HPL, with the products of matrices that its sources have for a library without them (VSIPL): messages are what is looked at.
if wanted hpl; then
    hpl=$hpcc/hpl
    echo 'typedef struct vsip_block_d vsip_block_d; /* none is used */' >"$out/sources/vsip.h"
    objects=$out/sources/hpl-objects
    mkdir -p "$objects"
    for file in "$hpl"/src/blas/*.c; do
        # shellcheck disable=SC2086
        "$mpicc" $flags -w -DHPL_CALL_VSIPL -I"$out/sources" -I"$hpcc/include" -I"$hpl/include" -c \
            -o "$objects/$(basename "$file" .c).o" "$file"
    done
    # Two functions by the names that they have since MPI 2.
    build hpl -std=gnu11 -w -DAdd_ -DMPI_Address=MPI_Get_address -DMPI_Type_struct=MPI_Type_create_struct -I"$hpcc/include" -I"$hpl/include" "$here/sim/hpl.c" "$objects"/*.o \
        "$hpl"/src/auxil/*.c "$hpl"/src/comm/*.c "$hpl"/src/grid/*.c "$hpl"/src/panel/*.c "$hpl"/src/pauxil/*.c "$hpl"/src/pfact/*.c \
        "$hpl"/src/pgesv/*.c "$hpl"/testing/*/*.c
fi

if wanted amg; then
    fetch hypre
    hypre=$(ls -d "$out"/sources/hypre-[0-9]*)/src
    if [ ! -e "$hypre/lib/libHYPRE.a" ]; then
        say "building hypre (see $out/sources/hypre.log)"
        (
            cd "$hypre"
            ./configure CC="$mpicc" CXX="$mpicc" CFLAGS="$flags" --disable-fortran
            make
        ) >"$out/sources/hypre.log" 2>&1 || die "hypre does not build; see $out/sources/hypre.log"
    fi
    build amg -std=gnu11 -w -DHAVE_CONFIG_H -I"$hypre" -I"$hypre/hypre/include" \
        -Wl,--wrap=HYPRE_PCGSolve "$hypre/test/ij.c" "$here/sim/amg_region.c" "$here/sim/account.c" \
        "$hypre/lib/libHYPRE.a" -lstdc++
fi
