#!/bin/sh
# Starts MPI programs by the real torchrun, which is too large for the tests: on this machine, and on two hosts of namespaces
# (scripts/two-hosts.sh; needs root). tests/jobs/variables.rs has a script in torchrun's place.
#
#   python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy mpi4py       some gigabytes; once
#   scripts/torchrun.sh /tmp/torch [PREFIX]                                           PREFIX: an installed Mica (target/dist)
#
# Each rank of the program in Python uses torch.distributed (gloo) and MPI side by side.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
venv=${1:?"usage: torchrun.sh VENV [PREFIX]"}
prefix=$(cd "${2:-$here/../target/dist}" && pwd)
work=$(mktemp -d)
end() {
    "$here/two-hosts.sh" remove
    rm -rf "$work"
}
trap end EXIT

cat >"$work/both.py" <<'EOF'
import os
import sys

import torch
import torch.distributed as dist

if sys.argv[1] == "torch":
    dist.init_process_group("gloo")
from mpi4py import MPI

world = MPI.COMM_WORLD
if sys.argv[1] == "mpi":
    dist.init_process_group("gloo")
size, rank = world.size, world.rank
assert (size, rank) == (dist.get_world_size(), dist.get_rank()), (size, rank)
assert world.allreduce(rank) == size * (size - 1) // 2
data = bytearray(range(256)) * 40_000
assert world.bcast(data if rank == 0 else None) == data
sums = torch.ones(1000) * rank
dist.all_reduce(sums)
assert float(sums[0]) == size * (size - 1) // 2
print(f"{os.uname().nodename}: rank {rank} of {size}, {MPI.Get_library_version().split(chr(10))[0]}", flush=True)
dist.destroy_process_group()
EOF

export LD_LIBRARY_PATH="$prefix/lib" OMP_NUM_THREADS=1
for first in torch mpi; do
    echo "one node, $first first:"
    "$venv/bin/torchrun" --standalone --nproc_per_node 3 "$work/both.py" $first
done

read -r a b <<EOF
$("$here/two-hosts.sh" make)
EOF
for first in torch mpi; do
    echo "two hosts, $first first:"
    # Hosts of namespaces share the machine's name, by which agents of the other rendezvous (c10d) find each other.
    on() {
        ip netns exec "$1" env GLOO_SOCKET_IFNAME=mica0 "$venv/bin/torchrun" --nnodes 2 --node_rank "$2" \
            --nproc_per_node 2 --master_addr "$a" --master_port 29400 "$work/both.py" "$first"
    }
    on "$b" 1 &
    on "$a" 0
    wait $!
done
