"""Pools of multiprocessing whose workers import mpi4py, as they import this file: a worker is a
descendant of a rank, and must neither be one nor fail, or the pool would start it again for ever."""
import multiprocessing

from mpi4py import MPI


def work(x):
    return x * x, MPI.COMM_WORLD.size


if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(work, range(8)) == [(x * x, 1) for x in range(8)]
    total = MPI.COMM_WORLD.allreduce(1)
    if MPI.COMM_WORLD.rank == 0:
        print("ranks:", total)
