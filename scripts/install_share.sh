#!/bin/sh
# install_share.sh PREFIX: PREFIX/share/mica, which has at its place in the source tree whatever the pages of docs and the messages of the
# tools name: the pages, the examples, the suite of `mica bench` with its scripts, descriptions of machines and schedules, and the reports of
# the results that are cited. Rust sources, tests and the scripts that build are in the source tree alone. Called by install.sh; it
# replaces what was there, so that no file of an older version stays. `documents_name_what_is_installed` (tests/jobs/tools.rs) holds the list.
. "$(dirname "$0")/common.sh"

prefix=${1:?usage: install_share.sh PREFIX}
share=$prefix/share/mica
new=$share.new
rm -rf "$new"

# copy MODE FILE...: to the same place below the new folder.
copy() {
    mode=$1
    shift
    for file in "$@"; do
        mkdir -p "$new/$(dirname "$file")"
        install -m "$mode" "$file" "$new/$file"
    done
}

mkdir -p "$new"
install -m 644 wrappers/mica.supp "$new/mica.supp"
copy 644 README.md CHANGELOG.md CONTRIBUTING.md LICENSE-APACHE LICENSE-MIT
copy 644 docs/*.md docs/design/*.md
copy 644 examples/*
copy 644 bench/suite.toml bench/src/* bench/sim/*
copy 755 bench/*.sh
copy 644 bench/*.py
# Data and charts of results are long: the reports are here, and the charts that README.md shows.
copy 644 bench/results/*/*.md
# shellcheck disable=SC2046 # names without spaces
copy 644 $(grep -o 'bench/results/[^)]*\.svg' README.md)
copy 644 crates/machine/machines/*.toml crates/links/schedules/*.txt
copy 755 scripts/two-hosts.sh
copy 644 tests/python/mpi4py-modules.txt

rm -rf "$share"
mv "$new" "$share"
