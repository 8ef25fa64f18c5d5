/* Shared by the MPI programs: how long a batch is, buffers, message numbers, arguments. */
#ifndef BENCH_MPI_H
#define BENCH_MPI_H
#include "bench.h"

#include <mpi.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The program's own file, not this one, where the compiler can tell. */
#ifdef __BASE_FILE__
#define BENCH_PROGRAM __BASE_FILE__
#else
#define BENCH_PROGRAM __FILE__
#endif

/* Ends the job. Open MPI loses what a rank has printed just before, and MPICH's MPI_Abort may
 * return. */
static inline void bench_abort(void)
{
    fflush(stderr);
    nanosleep(&(struct timespec){0, 300 * 1000 * 1000}, NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

/* Says what is wrong, as `mica bench` looks for it, and ends the job. */
#define bench_die(...)                          \
    do {                                        \
        fprintf(stderr, "%s: ", BENCH_PROGRAM); \
        fprintf(stderr, __VA_ARGS__);           \
        fputc('\n', stderr);                    \
        bench_abort();                          \
    } while (0)

/* Memory on a page boundary, every byte written: no page fault is left for the measurement. */
static inline char *bench_alloc(size_t bytes, int value)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes ? bytes : 1))
        bench_die("no memory for %zu bytes", bytes);
    memset(memory, value, bytes ? bytes : 1);
    return memory;
}

/* Every message begins with its number (as much of it as fits), which the receiver checks: a stale
 * buffer or a lost message cannot pass for a fast one. */
static inline void bench_stamp(char *out, size_t bytes, long number)
{
    memcpy(out, &number, bytes < sizeof number ? bytes : sizeof number);
}

static inline void bench_check(const char *in, size_t bytes, long number)
{
    if (memcmp(in, &number, bytes < sizeof number ? bytes : sizeof number))
        bench_die("message %ld of %zu bytes is not the one expected", number, bytes);
}

/* Checks that all bytes after the number are `value`. */
static inline void bench_check_rest(const char *in, size_t bytes, int value)
{
    for (size_t i = sizeof(long); i < bytes; i++)
        if ((unsigned char)in[i] != (unsigned char)value)
            bench_die("byte %zu of %zu is %d, not %d", i, bytes, (unsigned char)in[i],
                      (unsigned char)value);
}

/* Does an operation `n` times and returns the seconds to count for that. Called by all ranks alike;
 * the value of rank 0 counts. */
typedef double BenchRun(void *arg, long n);

/* Wall-clock seconds of `n` operations, whatever the run counts; the same on all ranks. */
static inline double bench_wall(BenchRun *run, void *arg, long n)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double wall = MPI_Wtime();
    run(arg, n);
    wall = MPI_Wtime() - wall;
    MPI_Bcast(&wall, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return wall;
}

/* Fills `batch` with seconds per operation and returns how many operations a batch has: as many as
 * take about `seconds` together with what the run does not count, at least one. The attempts that
 * find this number warm up. Every batch begins with a barrier. There are BATCHES of them, or as
 * many as fit into `limit` seconds, but at least 3: `batches` says. */
static inline long bench_measure_within(BenchRun *run, void *arg, double seconds, double limit,
                                        double *batch, int *batches)
{
    long n = 1, tried;
    run(arg, 1); /* connections, first touches */
    double wall = bench_wall(run, arg, n);
    /* Long enough three times, for any may have been interrupted; what is very slow is not. */
    for (int long_enough = wall >= 8 * seconds ? 3 : 0; long_enough < 3;) {
        wall = bench_wall(run, arg, n);
        long_enough = wall >= seconds / 4 ? long_enough + 1 : 0;
        n *= long_enough ? 1 : 2;
    }
    tried = n;
    n = (long)(seconds / wall * (double)n);
    n = n < 1 ? 1 : n;
    double fit = limit / (wall / (double)tried * (double)n);
    *batches = fit >= BATCHES ? BATCHES : fit <= 3 ? 3 : (int)fit;
    for (int b = 0; b < *batches; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        batch[b] = run(arg, n) / (double)n;
    }
    return n;
}

/* The same with all BATCHES, however long they take. */
static inline long bench_measure(BenchRun *run, void *arg, double seconds, double *batch)
{
    int batches;
    return bench_measure_within(run, arg, seconds, 1e9, batch, &batches);
}

/* "8", "64K" or "4M" in bytes; anything else ends the job. */
static inline long bench_bytes(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    long unit = *end == 'K' ? 1L << 10 : *end == 'M' ? 1L << 20 : 1;
    if (end == text || value < 0 || (unit > 1 ? end[1] : end[0]) || value > 0x7fffffffL / unit)
        bench_die("'%s' is neither an option nor a size such as 8, 64K or 4M", text);
    return value * unit;
}

/* Takes option `name` out of the arguments; whether it was there. */
static inline int bench_option(int *argc, char **argv, const char *name)
{
    for (int i = 1; i < *argc; i++)
        if (!strcmp(argv[i], name)) {
            for (int j = i; j < *argc; j++)
                argv[j] = argv[j + 1]; /* argv[argc] is NULL */
            --*argc;
            return 1;
        }
    return 0;
}

/* Takes option `name` and the size after it out of the arguments; `otherwise` if not there. */
static inline long bench_option_bytes(int *argc, char **argv, const char *name, long otherwise)
{
    for (int i = 1; i + 1 < *argc; i++)
        if (!strcmp(argv[i], name)) {
            long value = bench_bytes(argv[i + 1]);
            for (int j = i; j + 2 <= *argc; j++)
                argv[j] = argv[j + 2];
            *argc -= 2;
            return value;
        }
    return otherwise;
}

#endif
