#!/bin/sh
# Installs into the directory given: bin, lib, include, lib/pkgconfig, libexec, share/mica (install_share.sh). Builds first.
. "$(dirname "$0")/common.sh"

prefix=${1:?usage: install.sh PREFIX}
case $prefix in
    /*) ;;
    *) prefix=$ROOT/$prefix ;;
esac
sh scripts/build.sh

mkdir -p "$prefix/bin" "$prefix/lib/pkgconfig" "$prefix/include"
# By way of a new name: a program that runs keeps the file it has.
put() {
    install -m "$1" "$2" "$3.new"
    mv -f "$3.new" "$3"
}
filled() {
    sed "s/@VERSION@/$(version)/" "$2" >"$3.new"
    chmod "$1" "$3.new"
    mv -f "$3.new" "$3"
}
put 755 "$COMMANDS/mpiexec" "$prefix/bin/mpiexec"
put 755 "$COMMANDS/mica" "$prefix/bin/mica"
ln -sfn mpiexec "$prefix/bin/mpirun"
for name in mpicc mpicxx mpic++; do
    filled 755 wrappers/mpicc "$prefix/bin/$name"
done
put 755 "$CARGO_TARGET/release/libmpi_abi.so" "$prefix/lib/libmpi_abi.so.1"
ln -sfn libmpi_abi.so.1 "$prefix/lib/libmpi_abi.so"
# MPICH's ABI, under its name and Debian's. Nobody links to it: programs of this ABI are compiled with MPICH.
put 755 "$CARGO_TARGET/release/libmpi.so" "$prefix/lib/libmpi.so.12"
ln -sfn libmpi.so.12 "$prefix/lib/libmpich.so.12"
# What `mica profile` loads into the ranks.
put 755 "$COMMANDS/libmica_profile_preload.so" "$prefix/lib/libmica_profile.so"
# What `mica sim` loads into the emulator.
put 755 "$COMMANDS/libmica_sim_plugin.so" "$prefix/lib/libmica_sim_plugin.so"
put 644 include/mpi.h "$prefix/include/mpi.h"
for name in mica mpi_abi; do
    filled 644 "wrappers/$name.pc" "$prefix/lib/pkgconfig/$name.pc"
done
# The programs behind `mica tune`, built as any user's program is.
mkdir -p "$prefix/libexec/mica"
for name in calibrate calibrate_coll; do
    "$prefix/bin/mpicc" -O2 -std=c99 -o "$prefix/libexec/mica/$name.new" "bench/src/$name.c"
    mv -f "$prefix/libexec/mica/$name.new" "$prefix/libexec/mica/$name"
done
sh scripts/install_share.sh "$prefix"
say "installed into $prefix"
