# shellcheck shell=sh disable=SC2154 # $prefix is install.sh's
# Read by install.sh: $prefix/share/mica, which has at its place in the source tree whatever the pages of docs and the messages of the
# tools name: the pages, the examples, the suite of `mica bench` with its scripts, descriptions of machines and schedules, and the reports of
# the results that are cited. Rust sources, tests and the scripts that build are in the source tree alone.
# `documents_name_what_is_installed` (tests/jobs/documents.rs) holds the list.

# copy MODE FILE...: to the same place below share/mica.
copy() {
    copy_mode=$1
    shift
    for copy_file in "$@"; do
        put "$copy_mode" "$copy_file" "$prefix/share/mica/$copy_file"
    done
}

put 644 wrappers/mica.supp "$prefix/share/mica/mica.supp"
copy 644 README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-APACHE LICENSE-MIT
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
