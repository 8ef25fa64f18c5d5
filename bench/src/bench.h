/* Shared by the benchmark programs: batches of a fixed length, their median, one JSON line. */
#ifndef BENCH_H
#define BENCH_H
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 15 };

static int bench_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `batch` holds BATCHES values of one operation each, in `unit`. */
static void bench_print(const char *measure, long bytes, int ranks, double *batch, const char *unit,
                        long iterations)
{
    qsort(batch, BATCHES, sizeof *batch, bench_order);
    printf("{\"measure\": \"%s\", \"bytes\": %ld, \"ranks\": %d, \"value\": %.6g, \"min\": %.6g, "
           "\"max\": %.6g, \"unit\": \"%s\", \"iterations\": %ld}\n",
           measure, bytes, ranks, batch[BATCHES / 2], batch[0], batch[BATCHES - 1], unit, iterations);
    fflush(stdout);
}

#endif
