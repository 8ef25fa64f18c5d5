#!/bin/sh
# uninstall.sh PREFIX: takes back what install.sh has put into PREFIX (below DESTDIR, if that is set), by the manifest that it left there:
# files that are as they were installed, the modules that mpifort has compiled since, and the directories that it made and that are empty then.
. "$(dirname "$0")/common.sh"

: "${1:?usage: uninstall.sh PREFIX}"
prefix=$(installation "$1")
. "$ROOT/scripts/manifest.sh"
[ -f "$prefix/$MANIFEST" ] || [ -f "$prefix/$MANIFEST.new" ] ||
    fail "uninstall: there is no $prefix/$MANIFEST, so 'make install' has put nothing into $prefix; name another directory by PREFIX=DIR"

adopt_interrupted
take_back <"$prefix/$MANIFEST"
paths <"$prefix/$MANIFEST" | grep '/$' >"$scratch/directories" || true
rm "$prefix/$MANIFEST"
rm -rf "$prefix/lib/mica/fortran"
[ ! -d "$prefix/lib/mica" ] || echo lib/mica/ >>"$scratch/directories"
remove_empty <"$scratch/directories"
say "removed from $prefix"
