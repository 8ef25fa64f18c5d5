/* The Jacobi method with communication and computation overlapped (leon-2009, 2.4.1; Figure 2.6).
 *
 * A grid of points with zero outside lies on the ranks by rows. An iteration has the five steps of
 * the paper:
 *
 *     1  MPI_Isend of the first and the last row to the neighbours
 *     2  MPI_Irecv of the ghost rows from them
 *     3  new values of the rows between
 *     4  MPI_Waitall for the ghost rows
 *     5  new values of the first and the last row
 *
 * Ghost rows come while step 3 computes. An adapter that puts them into the cache at once may evict
 * what step 3 uses, which is what the paper calls pollution.
 *
 *     "jacobi"    microseconds of an iteration on the slowest rank
 *
 * All iterations after the first are a region of interest (MPI_Pcontrol(1), then 0). The beginning
 * is a mode sin(k pi x) sin(l pi y), which the scheme multiplies by a known factor in each
 * iteration: all points are checked at the end. Arguments: points of a row (16K), `--rows R` of
 * each rank (8), `--iterations N` (4). Needs -lm. */
#include "compute.h"

#include <math.h>

enum { UP, DOWN, WAVES_ACROSS = 2, WAVES_DOWN = 1 };

static int rank, size, rows, columns;
static double *current, *next;
static int neighbours[2];

static double *row_of(double *grid, int row)
{
    return grid + (size_t)(row + 1) * (size_t)(columns + 2) + 1;
}

static double angle(int waves, int points)
{
    return waves * 3.14159265358979323846 / (points + 1);
}

/* New values of rows first to last. */
static void compute(int first, int last)
{
    long stride = columns + 2;
    for (int row = first; row <= last; row++) {
        const double *in = row_of(current, row);
        double *out = row_of(next, row);
        for (long c = 0; c < columns; c++)
            out[c] = 0.25 * (in[c - 1] + in[c + 1] + in[c - stride] + in[c + stride]);
    }
}

static void iterate(void)
{
    MPI_Request sends[2], receives[2];
    for (int d = UP; d <= DOWN; d++)
        MPI_Isend(row_of(current, d == UP ? 0 : rows - 1), columns, MPI_DOUBLE, neighbours[d],
                  d == UP, MPI_COMM_WORLD, &sends[d]);
    for (int d = UP; d <= DOWN; d++)
        MPI_Irecv(row_of(current, d == UP ? -1 : rows), columns, MPI_DOUBLE, neighbours[d],
                  d == DOWN, MPI_COMM_WORLD, &receives[d]);
    compute(1, rows - 2);
    MPI_Waitall(2, receives, MPI_STATUSES_IGNORE);
    compute(0, 0);
    compute(rows - 1, rows - 1);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    double *swap = current;
    current = next;
    next = swap;
}

/* Calls `visit` with the value that the mode has at each point, times `factor`. */
static void each_point(double factor, void (*visit)(double *point, double value))
{
    double *across = allocate((size_t)columns * sizeof *across);
    for (int c = 0; c < columns; c++)
        across[c] = sin(angle(WAVES_ACROSS, columns) * (c + 1));
    for (int row = 0; row < rows; row++) {
        double down = factor * sin(angle(WAVES_DOWN, rows * size) * (rank * rows + row + 1));
        for (int c = 0; c < columns; c++)
            visit(row_of(current, row) + c, down * across[c]);
    }
    free(across);
}

static void set(double *point, double value)
{
    *point = value;
}

static void check(double *point, double value)
{
    if (!(fabs(*point - value) <= 1e-12))
        bench_die("rank %d: a point is %.17g, not %.17g", rank, *point, value);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rows = (int)bench_option_bytes(&argc, argv, "--rows", 8);
    long iterations = bench_option_bytes(&argc, argv, "--iterations", 4);
    columns = argc > 1 ? (int)bench_bytes(argv[1]) : 16 << 10;
    if (argc > 2 || columns < 2 || rows < 3 || iterations < 1)
        bench_die("expected the points of a row; a rank has 3 rows or more");
    neighbours[UP] = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    neighbours[DOWN] = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    size_t room = (size_t)(rows + 2) * (size_t)(columns + 2) * sizeof(double);
    current = allocate(room);
    next = allocate(room);
    each_point(1, set);
    iterate();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    double took = now(), slowest;
    for (long i = 0; i < iterations; i++)
        iterate();
    took = now() - took;
    MPI_Pcontrol(0);
    double factor = (cos(angle(WAVES_ACROSS, columns)) + cos(angle(WAVES_DOWN, rows * size))) / 2;
    each_point(pow(factor, (double)(iterations + 1)), check);
    MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double us = slowest / (double)iterations * 1e6;
        figure("jacobi", (long)columns * (long)sizeof(double), size, &us, 1, "us", iterations, "");
    }
    free(current);
    free(next);
    MPI_Finalize();
    return 0;
}
