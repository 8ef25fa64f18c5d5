"""mpi4py.futures with workers that are there (python -m mpi4py.futures), or that would have to be spawned."""
from mpi4py.futures import MPIPoolExecutor


def square(x):
    return x * x


if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(list(pool.map(square, range(5))), flush=True)
