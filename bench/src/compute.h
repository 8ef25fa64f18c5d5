/* Shared by the programs that compute as well as communicate: one clock, computation of a given
 * time or of a given amount, figures of any number of values. Include it before other headers. */
#ifndef BENCH_COMPUTE_H
#define BENCH_COMPUTE_H
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "bench_mpi.h"

#include <stdint.h>
#include <time.h>

/* Seconds of the clock that all processes of a node share. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Computes until this time has passed. If the core serves others meanwhile, this ends no later. */
static inline void spin(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        ;
}

/* Computes a given amount: if the core serves others meanwhile, this ends later. One unit is a
 * chain of 32 dependent multiplications, some 50 ns, in registers. */
static inline void work(long units)
{
    static volatile uint64_t result; /* keeps the compiler from dropping the chain */
    uint64_t x = result | 1;
    for (long i = 0; i < units; i++)
        for (int k = 0; k < 32; k++)
            x = x * 6364136223846793005u + 1442695040888963407u;
    result = x;
}

/* Zeroed memory of any type. */
static inline void *allocate(size_t bytes)
{
    return bench_alloc(bytes, 0);
}

/* Sorts the values; their median. */
static inline double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, bench_order);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* One figure: the median of n values (which it sorts), their extremes; `more` as in bench_line. */
static inline void figure(const char *measure, long bytes, int ranks, double *values, int n,
                          const char *unit, long iterations, const char *more)
{
    double middle = median(values, n);
    bench_line(measure, bytes, ranks, middle, values[0], values[n - 1], unit, iterations, more);
}

#endif
