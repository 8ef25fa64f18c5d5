"""A message is passed around the ring of ranks; every rank adds its number.

mpiexec -n 4 python ring.py
"""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % size, (rank - 1) % size

if rank == 0:
    comm.send(0, dest=right)
    token = comm.recv(source=left)
    expected = sum(range(size))
    print(f"the token went round {size} ranks and came back as {token}")
    assert token == expected, f"expected {expected}"
else:
    comm.send(comm.recv(source=left) + rank, dest=right)
