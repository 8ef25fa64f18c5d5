/* Shared by the kernels that say which calls their time goes to: seconds inside of each MPI call,
 * and the figures of that, as mpiP shows them (ma-2011, Tables 1 to 5). */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H
#include "compute.h"

enum { MOST_CALLS = 8, MOST_PASSES = 64 };

/* Seconds of this rank inside of each call in this pass. */
static double call_seconds[MOST_CALLS];

#define IN_CALL(which, call)                             \
    do {                                                 \
        double call_start = now();                       \
        call;                                            \
        call_seconds[which] += now() - call_start;       \
    } while (0)

/* Milliseconds of every pass, on rank 0: of the slowest rank, and inside of MPI as the ranks' mean,
 * which contains waiting for slower ranks. */
typedef struct {
    int passes;
    double total[MOST_PASSES], mpi[MOST_PASSES], call[MOST_CALLS][MOST_PASSES];
} PassTimes;

/* Ends a pass that took this rank `seconds`; called by all ranks. A pass that is not kept warmed
 * up. */
static inline void pass_end(PassTimes *times, double seconds, int keep)
{
    double slowest, sum[MOST_CALLS], all = 0;
    int rank, size, pass = times->passes;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(call_seconds, sum, MOST_CALLS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    memset(call_seconds, 0, sizeof call_seconds);
    if (rank != 0 || !keep)
        return;
    for (int c = 0; c < MOST_CALLS; c++) {
        times->call[c][pass] = sum[c] / size * 1e3;
        all += times->call[c][pass];
    }
    times->total[pass] = slowest * 1e3;
    times->mpi[pass] = all;
    times->passes++;
}

/* "NAME": a pass on the slowest rank; "NAME mpi": inside of MPI; "NAME call": inside of each call,
 * by key "call"; "NAME share": that in hundredths of the time inside of MPI, of all passes
 * together. Called by rank 0. */
static inline void print_passes(const char *name, long bytes, int ranks, PassTimes *times,
                                const char *const *calls, int n)
{
    char measure[64], more[64];
    double all = 0, sum[MOST_CALLS] = {0};
    for (int p = 0; p < times->passes; p++) {
        all += times->mpi[p];
        for (int c = 0; c < n; c++)
            sum[c] += times->call[c][p];
    }
    figure(name, bytes, ranks, times->total, times->passes, "ms", times->passes, "");
    snprintf(measure, sizeof measure, "%s mpi", name);
    figure(measure, bytes, ranks, times->mpi, times->passes, "ms", times->passes, "");
    for (int c = 0; c < n; c++) {
        double share = all > 0 ? 100 * sum[c] / all : 0;
        snprintf(more, sizeof more, ", \"call\": \"%s\"", calls[c]);
        snprintf(measure, sizeof measure, "%s call", name);
        figure(measure, bytes, ranks, times->call[c], times->passes, "ms", times->passes, more);
        snprintf(measure, sizeof measure, "%s share", name);
        bench_line(measure, bytes, ranks, share, share, share, "%", times->passes, more);
    }
}

#endif
