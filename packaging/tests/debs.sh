#!/bin/sh
# Run in a bare Debian by scripts/bare_root.sh (`make deb-test`): installs the packages of `make deb`, uses them, alone and beside Debian's
# own MPIs, removes them, and looks that nothing of them stays.
set -eu

say() {
    printf '== %s\n' "$*"
}
fail() {
    printf '== FAILED: %s\n' "$*" >&2
    exit 1
}
# quiet COMMAND...: shows what it printed only if it fails.
quiet() {
    "$@" >/tmp/quiet.log 2>&1 </dev/null || {
        cat /tmp/quiet.log >&2
        fail "$*"
    }
}
# expect WANTED COMMAND...: the command's output, its lines sorted.
expect() {
    wanted=$1
    shift
    got=$("$@" </dev/null 2>&1 | sort) || true
    [ "$got" = "$wanted" ] || fail "$*: expected '$wanted', got '$got'"
}
# leads_to LINK FILE: through all links.
leads_to() {
    expect "$2" readlink -f "$1"
}
# Every path, with its type and what a link leads to; but for what packages leave on any system: lists, logs and caches of dpkg, apt and
# the loader.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /mica -o -path /debs -o -path /tmp -o -path /var/lib/dpkg -o -path /var/lib/apt \
        -o -path /var/log -o -path /var/cache/apt -o -path /var/cache/debconf -o -path /var/cache/ldconfig \) -prune -o -printf '%p %y %l\n' | sort
}
# What Debian's alternatives of MPI lead to.
alternatives() {
    for link in /usr/bin/mpi* "/usr/include/$triplet/mpi" "/usr/lib/$triplet"/libmpi*.so "/usr/lib/$triplet"/pkgconfig/mpi*.pc; do
        [ ! -e "$link" ] || echo "$link $(readlink -f "$link")"
    done | grep -v mica
}
choose() {
    quiet update-alternatives --set mpirun "/usr/bin/mpirun.$1"
    quiet update-alternatives --set mpi "/usr/bin/mpicc.$1"
    quiet update-alternatives --set "mpi-$triplet" "$2"
}
# Four ranks that say hello, by the alternatives' mpiexec.
hellos() {
    for rank in 0 1 2 3; do
        echo "hello from rank $rank of 4 on $(hostname)"
    done
}

ours="libmica-mpi1 mica-mpi libmica-mpi-dev"
packages=$(for name in $ours; do ls /debs/"$name"_*.deb; done) || fail "there are no packages; run make deb"
cd /tmp

say "getting a compiler"
quiet apt-get update
quiet apt-get install -y --no-install-recommends gcc g++ gfortran libc6-dev pkg-config
ldconfig
files >before
triplet=$(gcc -print-multiarch)
mica=/usr/lib/$triplet/mica-mpi

say "alone"
# shellcheck disable=SC2086 # a list
quiet apt-get install -y --no-install-recommends $packages
leads_to /usr/bin/mpicc "$mica/bin/mpicc"
mpicc -O2 -Wall -Werror -o hello /mica/examples/hello.c
expect "$(hellos)" mpiexec -n 4 ./hello
# Debian's programs have no path to libraries of their own.
mpicc -norpath -o hello-plain /mica/examples/hello.c
expect "$(hellos)" mpirun -n 4 ./hello-plain
for compiler in mpicxx mpic++ mpiCC; do
    "$compiler" -x c++ -o "hello-$compiler" /mica/examples/hello.c
    expect "$(hellos)" mpiexec -n 4 "./hello-$compiler"
done
for package in mica mpi mpi-c mpi-cxx; do
    # shellcheck disable=SC2046 # several words
    gcc -o hello-pc /mica/examples/hello.c $(pkg-config --cflags --libs "$package")
    expect "$(hellos)" mpiexec -n 4 ./hello-pc
done
for compiler in mpifort mpif90 mpif77; do
    "$compiler" -o sum-fortran /mica/tests/builds/fortran/sum_f08.f90
    quiet mpiexec -n 3 ./sum-fortran
done
# shellcheck disable=SC2046 # several words
gfortran -o sum-fortran /mica/tests/builds/fortran/sum_mpif.f $(pkg-config --cflags --libs mpi-fort)
quiet mpiexec -n 3 ./sum-fortran
gcc "-I/usr/include/$triplet/mpi" -o hello-links /mica/examples/hello.c -lmpi
expect "$(hellos)" mpiexec -n 4 ./hello-links
mica version
status=0
mica doctor || status=$?
[ "$status" -le 1 ] || fail "mica doctor: status $status"
mica doctor --all 2>&1 | grep -q "mpiexec and mpicc in PATH are this installation's" || fail "mica doctor does not find its own mpiexec"
expect "" sh -c "ldd $mica/libexec/mica/* | grep 'not found'"
quiet apt-get install -y --reinstall --no-install-recommends /debs/mica-mpi_*.deb
leads_to /usr/bin/mpiexec "$mica/bin/mpiexec"

say "removed"
# shellcheck disable=SC2086 # a list
quiet apt-get purge -y --autoremove $ours
files >after
diff before after || fail "the packages left files, or took some"
say "nothing stays: $(wc -l <before) paths before and after"

say "beside MPICH and Open MPI"
quiet apt-get install -y --no-install-recommends mpich libmpich-dev openmpi-bin libopenmpi-dev
ldconfig
files >before
alternatives >before.mpi
# shellcheck disable=SC2086 # a list
quiet apt-get install -y --no-install-recommends $packages
alternatives >beside.mpi
diff before.mpi beside.mpi || fail "the packages have changed which MPI is used"
choose mpich "/usr/include/$triplet/mpich"
mpicc -o hello-mpich /mica/examples/hello.c
expect "$(hellos)" mpiexec -n 4 ./hello-mpich
ldd hello-mpich | grep -q libmpich.so.12 || fail "MPICH's mpicc does not link to MPICH"
mpifort.mpich -o sum-mpich /mica/tests/builds/fortran/sum_f08.f90
choose mica "$mica/include"
leads_to /usr/bin/mpicxx "$mica/bin/mpicxx"
leads_to /usr/bin/mpifort "$mica/bin/mpifort"
mpicc -o hello-mica /mica/examples/hello.c
expect "$(hellos)" mpiexec -n 4 ./hello-mica
ldd hello-mica | grep -q libmpi_abi.so.1 || fail "Mica's mpicc does not link to Mica"
# Either's programs, whatever is chosen; and MPICH's on Mica, when asked to.
expect "$(hellos)" mpiexec -n 4 ./hello-mpich
expect "$(hellos)" env LD_LIBRARY_PATH="$mica/lib" mpiexec -n 4 ./hello-mpich
LD_LIBRARY_PATH=$mica/lib ldd hello-mpich | grep -q "$mica/lib/libmpich.so.12" || fail "MPICH's program does not find Mica's library"
# It says whose library it has, and fails on another's.
quiet env LD_LIBRARY_PATH="$mica/lib" mpiexec -n 3 ./sum-mpich
choose openmpi "/usr/lib/$triplet/openmpi/include"
leads_to /usr/bin/mpicc /usr/bin/opal_wrapper
expect "$(hellos)" mpiexec.mica -n 4 ./hello-mica
choose mica "$mica/include"
# shellcheck disable=SC2086 # a list
quiet apt-get purge -y $ours
alternatives >after.mpi
diff before.mpi after.mpi || fail "another MPI is used than before"
files >after
diff before after || fail "the packages left files, or took some"
say "nothing stays, and the MPI of before is used: $(readlink -f /usr/bin/mpicc)"
