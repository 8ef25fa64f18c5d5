"""The last rank ends by an exception while the others wait for it."""
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == comm.size - 1:
    raise RuntimeError("on purpose")
comm.barrier()
