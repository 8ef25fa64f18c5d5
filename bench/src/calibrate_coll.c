/* For `mica tune`: the time of one step of collectives, all ranks waiting, each buffer used again and again.
 *
 * calibrate_coll SECONDS barrier        a barrier
 * calibrate_coll SECONDS bcast BYTES    a broadcast; ranks take turns as the root, so that none can run ahead
 * calibrate_coll SECONDS reduce BYTES   combining a vector of doubles with another one, on each rank for itself
 *
 * Prints one JSON line, as the benchmark programs do: the median of 15 batches in microseconds, with the least and the
 * greatest, and the quartiles. About SECONDS go into it. What was broadcast or combined is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALIBRATE_BATCHES = 15 };

static int rank, size;
static long number; /* of the call */
static char *buffer;
static double *operand;
static long bytes;

static void fail(const char *what, const char *value)
{
    fprintf(stderr, "calibrate_coll: %s: %s\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(void)
{
    int root = (int)(number % size);
    size_t stamp = bytes < (long)sizeof number ? (size_t)bytes : sizeof number;
    if (rank == root)
        memcpy(buffer, &number, stamp);
    MPI_Bcast(buffer, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    if (memcmp(buffer, &number, stamp))
        fail("another broadcast than the one expected", "wrong number");
}

static void reduce(void)
{
    MPI_Reduce_local(operand, buffer, (int)(bytes / (long)sizeof(double)), MPI_DOUBLE, MPI_MAX);
}

static double calls(void (*call)(void), long n)
{
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++)
        call();
    return MPI_Wtime() - start;
}

/* What is in the buffers at the end: the last root's bytes, or the greater of two numbers. */
static void check(void (*call)(void))
{
    if (call == bcast) {
        int root = (int)((number - 1) % size);
        memset(buffer, rank == root ? 'a' : 'b', (size_t)bytes);
        MPI_Bcast(buffer, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        for (long i = 0; i < bytes; i++)
            if (buffer[i] != 'a')
                fail("a byte of a broadcast is wrong", "not the root's");
    } else if (call == reduce) {
        for (long i = 0; i < bytes / (long)sizeof(double); i++)
            if (((double *)(void *)buffer)[i] != (double)i + 1)
                fail("a number is wrong", "not the greater one");
    }
}

static void measure(const char *name, void (*call)(void), double seconds)
{
    double batch[CALIBRATE_BATCHES], once;
    long n;
    calls(call, 2);
    once = calls(call, 2) / 2;
    n = (long)(seconds / 8 / (once > 1e-8 ? once : 1e-8)) + 1;
    MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    once = calls(call, n) / (double)n; /* warm by now */
    n = (long)(seconds / CALIBRATE_BATCHES / (once > 1e-8 ? once : 1e-8)) + 1;
    MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int b = 0; b < CALIBRATE_BATCHES; b++)
        batch[b] = calls(call, n) / (double)n * 1e6;
    check(call);
    if (rank == 0) {
        qsort(batch, CALIBRATE_BATCHES, sizeof *batch, order);
        printf("{\"measure\": \"calibrate_coll\", \"collective\": \"%s\", \"bytes\": %ld, \"ranks\": %d, "
               "\"value\": %.6g, \"min\": %.6g, \"max\": %.6g, \"low\": %.6g, \"high\": %.6g, \"unit\": \"us\", "
               "\"iterations\": %ld}\n",
               name, bytes, size, batch[CALIBRATE_BATCHES / 2], batch[0], batch[CALIBRATE_BATCHES - 1],
               batch[CALIBRATE_BATCHES / 4], batch[CALIBRATE_BATCHES - 1 - CALIBRATE_BATCHES / 4],
               n * CALIBRATE_BATCHES);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    double seconds;
    char *end;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3)
        fail("usage", "calibrate_coll SECONDS barrier|bcast|reduce [BYTES]");
    seconds = strtod(argv[1], NULL);
    if (!(seconds > 0 && seconds < 60))
        fail("not a number of seconds", argv[1]);
    if (argc > 3) {
        bytes = strtol(argv[3], &end, 10);
        if (*end || bytes < 1 || bytes > 1L << 30)
            fail("not a number of bytes", argv[3]);
    }
    buffer = calloc(1, (size_t)bytes + sizeof(double));
    operand = malloc((size_t)bytes + sizeof(double));
    if (!buffer || !operand)
        fail("no memory for", argc > 3 ? argv[3] : "nothing");
    for (long i = 0; i < bytes / (long)sizeof(double); i++)
        operand[i] = (double)i + 1;
    if (!strcmp(argv[2], "barrier") && argc == 3)
        measure("barrier", barrier, seconds);
    else if (!strcmp(argv[2], "bcast") && argc == 4)
        measure("bcast", bcast, seconds);
    else if (!strcmp(argv[2], "reduce") && argc == 4)
        measure("reduce", reduce, seconds);
    else
        fail("not barrier, bcast BYTES or reduce BYTES", argv[2]);
    free(operand);
    free(buffer);
    MPI_Finalize();
    return 0;
}
