#!/bin/sh
# manual.sh SHARE PACKAGES: moves manual pages and completion from an installation's share, as far as it has them, to where Debian looks for
# them, in the packages' trees below PACKAGES. Pages of commands that every MPI has are named as in /usr/bin, and those of functions are in a
# section of their own (3mica), so that none is another MPI's. Completion of mpiexec stays in the installation: shells look it up by that
# name, whichever MPI's it is.
set -eu

share=$1
tools=$2/mica-mpi/usr/share
dev=$2/libmica-mpi-dev/usr/share

# move FROM TO: a file, if it is there. Pages that refer to another follow it to its new name.
move() {
    [ -f "$1" ] || return 0
    mkdir -p "$(dirname "$2")"
    sed 's|^\.so man1/\(mpi.*\)\.1$|.so man1/\1.mica.1|' "$1" >"$2"
    rm "$1"
}

for name in mpiexec mpirun; do
    move "$share/man/man1/$name.1" "$tools/man/man1/$name.mica.1"
done
for name in mpicc mpicxx mpic++ mpiCC mpifort mpif90 mpif77; do
    move "$share/man/man1/$name.1" "$dev/man/man1/$name.mica.1"
done
for page in "$share"/man/man1/*.1; do
    move "$page" "$tools/man/man1/${page##*/}"
done
for page in "$share"/man/man3/*.3; do
    move "$page" "$dev/man/man3/${page##*/}mica"
done
move "$share/bash-completion/completions/mica" "$tools/bash-completion/completions/mica"
move "$share/zsh/site-functions/_mica" "$tools/zsh/vendor-completions/_mica"
move "$share/fish/vendor_completions.d/mica.fish" "$tools/fish/vendor_completions.d/mica.fish"
find "$share" -depth -type d -empty -delete
