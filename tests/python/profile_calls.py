"""Calls whose place the profiler must name (tests/jobs/profile.rs), from two threads as well."""

import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
values = bytearray(1000)


def pass_on(tag):
    peer = 1 - comm.rank
    for _ in range(20):
        comm.Sendrecv(values, dest=peer, sendtag=tag, recvbuf=bytearray(1000), source=peer, recvtag=tag)  # site: pass_on


thread = threading.Thread(target=pass_on, args=(1,))
thread.start()
pass_on(2)
thread.join()
comm.Barrier()  # site: barrier
