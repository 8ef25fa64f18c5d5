/* Shared by the benchmark programs: batches of a fixed length, their median, one JSON line for each
 * figure. bench_mpi.h holds what needs MPI. */
#ifndef BENCH_H
#define BENCH_H
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 15, LINE_EXCHANGES = 1000 /* before a batch, to learn how far apart cores lie */ };

/* Between two polls of a line that another core writes: otherwise a poll takes the line away before
 * the other core has stored. */
static inline void bench_pause(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static inline int bench_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One figure. `more` is empty or holds further keys, each as `, "key": value`. */
static inline void bench_line(const char *measure, long bytes, int ranks, double value, double min,
                              double max, const char *unit, long iterations, const char *more)
{
    printf("{\"measure\": \"%s\", \"bytes\": %ld, \"ranks\": %d, \"value\": %.6g, \"min\": %.6g, "
           "\"max\": %.6g, \"unit\": \"%s\", \"iterations\": %ld%s}\n",
           measure, bytes, ranks, value, min, max, unit, iterations, more);
    fflush(stdout);
}

/* The median of a measure. `batch` holds BATCHES values of one operation each, in `unit`. */
static inline void bench_print_more(const char *measure, long bytes, int ranks, double *batch,
                                    const char *unit, long iterations, const char *more)
{
    qsort(batch, BATCHES, sizeof *batch, bench_order);
    bench_line(measure, bytes, ranks, batch[BATCHES / 2], batch[0], batch[BATCHES - 1], unit,
               iterations, more);
}

/* How far apart two cores lay, as the key `line_us` of a figure's line: the median of BATCHES times
 * in `us`. */
static inline const char *bench_line_key(double *us, char *text, size_t room)
{
    qsort(us, BATCHES, sizeof *us, bench_order);
    snprintf(text, room, ", \"line_us\": %.3g", us[BATCHES / 2]);
    return text;
}

static inline void bench_print(const char *measure, long bytes, int ranks, double *batch,
                               const char *unit, long iterations)
{
    bench_print_more(measure, bytes, ranks, batch, unit, iterations, "");
}

#endif
