#!/bin/sh
# install.sh PREFIX [built]: builds, and installs into PREFIX: bin, lib, include, lib/pkgconfig, libexec, share/mica (install_share.sh); built:
# what is built already, as it is. The files go to DESTDIR followed by PREFIX, if that is set, and none of them has either name in it: an
# installation may be moved. DEBUG=1 adds line tables for debuggers (manifest.sh). Each file goes through a function of manifest.sh, by
# which uninstall.sh and a later installation know it.
. "$(dirname "$0")/common.sh"

: "${1:?usage: install.sh PREFIX [built]}"
prefix=$(installation "$1")
case ${2-} in
    '') sh scripts/build.sh ;;
    built) [ -f "$COMMANDS/mpiexec" ] || fail "install: there is no $COMMANDS/mpiexec; build first: make build" ;;
    *) fail "install: '$2' is not 'built'" ;;
esac

. "$ROOT/scripts/manifest.sh"
begin_manifest

object 755 "$COMMANDS/mpiexec" "$prefix/bin/mpiexec"
object 755 "$COMMANDS/mica" "$prefix/bin/mica"
# The names by which MPICH (_abi) and Debian (.mica) tell MPIs apart are there as well.
for name in mpirun mpiexec.mica mpirun.mica; do
    link mpiexec "$prefix/bin/$name"
done
for name in mpicc mpicxx mpic++ mpiCC mpifort mpif90 mpif77; do
    for end in '' _abi .mica; do
        filled 755 wrappers/mpicc "$prefix/bin/$name$end"
    done
done
object 755 "$CARGO_TARGET/release/libmpi_abi.so" "$prefix/lib/libmpi_abi.so.1"
link libmpi_abi.so.1 "$prefix/lib/libmpi_abi.so"
object 755 "$CARGO_TARGET/release/libmpifort_abi.so" "$prefix/lib/libmpifort_abi.so.1"
link libmpifort_abi.so.1 "$prefix/lib/libmpifort_abi.so"
# MPICH's ABI for C and for Fortran, under its names and Debian's. Nobody links to it: programs of this ABI are compiled with MPICH.
object 755 "$CARGO_TARGET/release/libmpi.so" "$prefix/lib/libmpi.so.12"
link libmpi.so.12 "$prefix/lib/libmpich.so.12"
object 755 "$CARGO_TARGET/release/libmpifort.so" "$prefix/lib/libmpifort.so.12"
link libmpifort.so.12 "$prefix/lib/libmpichfort.so.12"
# What `mica profile` loads into the ranks.
object 755 "$COMMANDS/libmica_profile_preload.so" "$prefix/lib/libmica_profile.so"
# What `mica sim` loads into the emulator.
object 755 "$COMMANDS/libmica_sim_plugin.so" "$prefix/lib/libmica_sim_plugin.so"
put 644 include/mpi.h "$prefix/include/mpi.h"
# Fortran's modules as sources, which mpifort compiles: a compiler reads no other compiler's modules.
put 644 include/fortran/mpif.h "$prefix/include/mpif.h"
for name in mpi_f08 mpi; do
    put 644 "include/fortran/$name.f90" "$prefix/share/mica/fortran/$name.f90"
done
sources=$(cat include/fortran/mpif.h include/fortran/mpi_f08.f90 include/fortran/mpi.f90 wrappers/mpifort.sh | sha256sum | cut -c 1-16)
filled 644 wrappers/mpifort.sh "$prefix/share/mica/fortran/mpifort.sh" "s/@SOURCES@/$sources/"
# The standard's names for pkg-config have the standard's version, Mica's name has Mica's.
for package in "mica=$(version)" mpi_abi=5.0 mpi=5.0 mpi-c=5.0 mpi-cxx=5.0 mpi-fort=5.0; do
    name=${package%=*}
    [ "$name" = mpi-fort ] && libraries='-lmpifort_abi -lmpi_abi' || libraries=-lmpi_abi
    filled 644 wrappers/pkgconfig.pc.in "$prefix/lib/pkgconfig/$name.pc" \
        "s/@NAME@/$name/; s/@PACKAGE_VERSION@/${package#*=}/; s/@LIBRARIES@/$libraries/"
done
# The programs behind `mica tune`, built as any user's program is, but that they find the library from where they are.
for name in calibrate calibrate_coll; do
    # shellcheck disable=SC2016 # for the loader
    "$prefix/bin/mpicc" -norpath '-Wl,-rpath,$ORIGIN/../../lib' -O2 -std=c99 -o "$scratch/$name" "bench/src/$name.c"
    put 755 "$scratch/$name" "$prefix/libexec/mica/$name"
done
. "$ROOT/scripts/install_share.sh"
. "$ROOT/scripts/install_man.sh"

finish_manifest
say "installed into $prefix"
