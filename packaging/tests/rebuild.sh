#!/bin/sh
# rebuild.sh PACKAGE...: run in a bare Debian by scripts/bare_root.sh: builds Debian's source packages as they are, with their tests, on
# Mica's packages from `make deb`, and shows which of the packages made depend on Mica's library. What a package builds with (its
# Build-Depends) brings Open MPI; the alternatives choose Mica. PACKAGE:COMMAND runs a command in its source tree afterwards: tests that
# Debian does not run. DEB_BUILD_OPTIONS may have more of Debian's options of builds: noopt compiles faster.
set -eu

say() {
    printf '== %s\n' "$*"
}
logs=$(mktemp -d)
# logged NAME COMMAND...: shows the end of what it printed only if it fails.
logged() {
    log=$logs/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 100 "$log" >&2
        say "FAILED: $*"
        exit 1
    }
}

sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
logged update apt-get update
logged tools apt-get install -y --no-install-recommends build-essential fakeroot
triplet=$(gcc -print-multiarch)
# The tests of packages do not run as root on Debian's machines either.
useradd --create-home builder
cd /home/builder

for item in "$@"; do
    package=${item%%:*}
    say "$package: getting what it builds with"
    logged "$package-depends" apt-get build-dep -y --arch-only --no-install-recommends "$package"
    # shellcheck disable=SC2046 # names without blanks
    logged mica apt-get install -y --no-install-recommends $(ls /debs/libmica-mpi1_*.deb /debs/mica-mpi_*.deb /debs/libmica-mpi-dev_*.deb)
    logged mpirun update-alternatives --set mpirun /usr/bin/mpirun.mica
    logged mpi update-alternatives --set mpi /usr/bin/mpicc.mica
    logged headers update-alternatives --set "mpi-$triplet" "/usr/lib/$triplet/mica-mpi/include"
    mkdir "$package"
    chown builder "$package"
    cd "$package"
    logged "$package-source" su builder -c "apt-get source $package"
    cd "$(find . -mindepth 1 -maxdepth 1 -type d)"
    say "$package: building $(dpkg-parsechangelog -S Version) with its tests"
    start=$(date +%s)
    logged "$package-build" su builder -c "DEB_BUILD_OPTIONS='parallel=$(nproc) $DEB_BUILD_OPTIONS' dpkg-buildpackage -B -us -uc"
    say "$package: built and tested in $(($(date +%s) - start)) s"
    grep -E 'tests passed|tests failed|^# (TOTAL|PASS|SKIP|FAIL|XFAIL|ERROR):|passed .* tests|[0-9]+% tests' "$logs/$package-build.log" || :
    if [ "$item" != "$package" ]; then
        say "$package: ${item#*:}"
        logged "$package-more" su builder -c "${item#*:}"
        tail -n 5 "$logs/$package-more.log"
    fi
    cd ..
    for deb in *.deb; do
        ! dpkg-deb -f "$deb" Depends | grep -q libmica-mpi1 || echo "   $deb depends on $(dpkg-deb -f "$deb" Depends | grep -o 'libmica-mpi1[^,]*')"
        ! dpkg-deb -f "$deb" Depends | grep -q libopenmpi3 || echo "   $deb depends on Open MPI"
    done
    cd /home/builder
done
