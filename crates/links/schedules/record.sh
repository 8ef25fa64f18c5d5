#!/bin/sh
# Records the shipped schedules on 32 ranks: sh crates/links/schedules/record.sh PREFIX, where Mica
# is installed. The third of four calls is kept: the first finds out how buffers can be reached.
set -eu
prefix=${1:?usage: record.sh PREFIX}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$prefix/bin/mpicc" -O2 -std=c99 -o "$work/record" "$here/record.c"
printf '[\n' >"$work/list"
while read -r name collective bytes family; do
    command="MICA_RECORD_TRANSFERS=$name MICA_COLL=$family mpiexec -n 32 record $collective $bytes"
    MICA_RECORD_TRANSFERS="$work/$name" MICA_COLL=$family \
        "$prefix/bin/mpiexec" -n 32 "$work/record" "$collective" "$bytes" </dev/null
    cargo run -q -p mica-links --example schedule -- \
        "$work/$name" 32 "$collective" 2 "$command" </dev/null >"$here/$name.txt"
    printf '    ("%s", include_str!("%s.txt")),\n' "$name" "$name" >>"$work/list"
done <<LIST
allreduce-16384 allreduce 16384 auto
allreduce-16384-direct allreduce 16384 direct
allreduce-1024 allreduce 1024 auto
reduce-16384 reduce 16384 auto
bcast-65536 bcast 65536 auto
bcast-65536-direct bcast 65536 direct
allgather-4096 allgather 4096 auto
alltoall-1024 alltoall 1024 auto
alltoall-4096-direct alltoall 4096 direct
barrier barrier 0 auto
LIST
printf ']\n' >>"$work/list"
mv "$work/list" "$here/list.rs"
