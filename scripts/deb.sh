#!/bin/sh
# `make deb`: Debian packages of this source tree in target/deb: libmica-mpi1, mica-mpi, libmica-mpi-dev. packaging/debian has the recipe; it
# is used in a directory of its own, since debhelper writes beside it. DEBFULLNAME and DEBEMAIL, as all Debian tools read them, say who made
# the packages. docs/packages.md describes what is in them.
. "$(dirname "$0")/common.sh"

sh scripts/setup.sh build deb
user=$(id -un)
maintainer="${DEBFULLNAME:-$user} <${DEBEMAIL:-$user@$(hostname -f 2>/dev/null || hostname)}>"
# Of the last commit, so that packages of one tree are the same.
date=$(git log -1 --format=%cD 2>/dev/null) || date=$(date -R -r Cargo.toml)

out=$BUILD/deb
work=$out/mica-mpi-$(version)
rm -rf "$work"
rm -f "$out"/*.deb "$out"/*.buildinfo "$out"/*.changes
mkdir -p "$work"
cp -R packaging/debian "$work/debian"
for file in control changelog; do
    sed -i "s/@VERSION@/$(version)/; s/@MAINTAINER@/$maintainer/; s/@DATE@/$date/" "$work/debian/$file"
done

# -d: the Rust that Mica needs is newer than Debian's, so no list of packages could ask for it; setup.sh has looked.
package() {
    cd "$work" && MICA_SOURCE=$ROOT dpkg-buildpackage -b -d -us -uc
}
step deb package
rm -rf "$work"
say "packages:"
ls -l "$out"/*.deb
