"""Three-dimensional FFTs by mpi4py-fft: a real program whose data is transposed by MPI_Alltoallw.

Arguments: points of a side (128), passes (20). A pass is a transform of random real numbers and its
inverse, which is checked: both together change nothing. Rank 0 prints milliseconds of a pass on the
slowest rank, the median of the passes, as the programs in C do.
"""

import json
import sys

import numpy
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

side = int(sys.argv[1]) if len(sys.argv) > 1 else 128
passes = int(sys.argv[2]) if len(sys.argv) > 2 else 20
comm = MPI.COMM_WORLD
fft = PFFT(comm, (side, side, side), dtype=numpy.float64)
values = newDistArray(fft, False)
spectrum = newDistArray(fft, True)
start = numpy.random.default_rng(comm.rank).random(values.shape)
times = []
for number in range(passes + 2):
    values[...] = start
    comm.Barrier()
    began = MPI.Wtime()
    spectrum = fft.forward(values, spectrum)
    values = fft.backward(spectrum, values)
    slowest = numpy.array([MPI.Wtime() - began])
    comm.Allreduce(MPI.IN_PLACE, slowest, op=MPI.MAX)
    if not numpy.allclose(values, start, rtol=0, atol=1e-10):
        sys.stderr.write(f"rank {comm.rank}: the inverse transform gives other numbers\n")
        comm.Abort(1)
    if number >= 2:
        times.append(float(slowest[0]) * 1e3)
if comm.rank == 0:
    times.sort()
    figure = {"measure": "mpi4py-fft", "bytes": side**3 * 8, "ranks": comm.size}
    figure.update(value=times[len(times) // 2], min=times[0], max=times[-1])
    figure.update(unit="ms", iterations=passes)
    print(json.dumps(figure))
