/* Shared by the programs that hide communication or writes behind computation (overlap.c,
 * io_calls.c): the time of all ranks together, and a computation that takes as long as something
 * else. Include it before other headers. */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H
#include "compute.h"

enum { MOST = 2000 /* repetitions that are timed one by one in a batch */ };

/* Microseconds of one of n: from the first rank's start to the last one's end. */
static inline double together(double *starts, double *ends, int n)
{
    static double first[MOST], last[MOST];
    double sum = 0;
    MPI_Allreduce(starts, first, n, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(ends, last, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        sum += last[i] - first[i];
    return sum / n * 1e6;
}

/* Microseconds of one of n computations by all ranks, each after a barrier. */
static inline double computations(long units, int n)
{
    static double starts[MOST], ends[MOST];
    for (int i = 0; i < n; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        starts[i] = now();
        work(units);
        ends[i] = now();
    }
    return together(starts, ends, n);
}

/* Units of work that take all ranks together this many microseconds. */
static inline long calibrate(double us, int n)
{
    long units = 1;
    for (int step = 0; step < 12; step++) {
        double took[3]; /* the least: what others take from the machine is not in it */
        for (int i = 0; i < 3; i++)
            took[i] = computations(units, n);
        median(took, 3);
        double grow = us / (took[0] > 1e-3 ? took[0] : 1e-3);
        if (step > 1 && grow > 0.97 && grow < 1.03)
            break;
        double next = (double)units * (grow > 50 ? 50 : grow < 0.02 ? 0.02 : grow);
        units = next < 1 ? 1 : (long)(next + 0.5);
        MPI_Bcast(&units, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    }
    return units;
}

#endif
