/* For `mica tune`: the time of one step of collectives, all ranks waiting, each buffer used again
 * and again.
 *
 * calibrate_coll SECONDS barrier        a barrier
 * calibrate_coll SECONDS bcast BYTES    a broadcast; ranks take turns as the root, so that none can run ahead
 * calibrate_coll SECONDS reduce_local BYTES
 *                                       combining a vector of doubles with another one, on each rank
 * calibrate_coll SECONDS NAME BYTES     reduce, allreduce, scan, gather, scatter, allgather, alltoall or
 *                                       reduce_scatter; BYTES of the vector, of each rank's block, of each
 *                                       pair's block. Roots take turns.
 *
 * Prints one JSON line, as the benchmark programs do: the median of 15 batches in microseconds,
 * with the least and the greatest, and the quartiles. About SECONDS go into it. What was broadcast
 * or combined is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALIBRATE_BATCHES = 15 };

static int rank, size;
static long number; /* of the call */
static char *buffer; /* BYTES, or a block of them for each rank */
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

static void reduce_local(void)
{
    MPI_Reduce_local(operand, buffer, (int)(bytes / (long)sizeof(double)), MPI_DOUBLE, MPI_MAX);
}

/* What follows combines or moves `operand`, of which every rank has the same, so that each result
 * is known: of sums the number of ranks times it, otherwise it. */
static int doubles(void)
{
    return (int)(bytes / (long)sizeof(double));
}

static void reduce(void)
{
    int root = (int)(number % size);
    MPI_Reduce(operand, buffer, doubles(), MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
}

static void allreduce(void)
{
    MPI_Allreduce(operand, buffer, doubles(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void scan(void)
{
    MPI_Scan(operand, buffer, doubles(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(void)
{
    MPI_Reduce_scatter_block(operand, buffer, doubles(), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(void)
{
    int root = (int)(number % size);
    MPI_Gather(operand, (int)bytes, MPI_BYTE, buffer, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void scatter(void)
{
    int root = (int)(number % size);
    MPI_Scatter(operand, (int)bytes, MPI_BYTE, buffer, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void allgather(void)
{
    MPI_Allgather(operand, (int)bytes, MPI_BYTE, buffer, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(void)
{
    MPI_Alltoall(operand, (int)bytes, MPI_BYTE, buffer, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static const struct call {
    const char *name;
    void (*call)(void);
    int sums; /* 1: the number of ranks; 2: up to this one */
    int rooted;
} more[] = {
    {"reduce", reduce, 1, 1},
    {"allreduce", allreduce, 1, 0},
    {"scan", scan, 2, 0},
    {"reduce_scatter", reduce_scatter, 1, 0},
    {"gather", gather, 0, 1},
    {"scatter", scatter, 0, 0},
    {"allgather", allgather, 0, 0},
    {"alltoall", alltoall, 0, 0},
};

/* The first number of the result. */
static void check_more(const struct call *of)
{
    int root = (int)((number - 1) % size);
    double times = of->sums == 0 ? 1 : of->sums == 1 ? size : rank + 1;
    double *result = (double *)(void *)buffer;
    if (doubles() == 0 || (of->rooted && rank != root))
        return;
    if (*result != times * *operand)
        fail("a number is wrong after", of->name);
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
    } else if (call == reduce_local) {
        for (long i = 0; i < bytes / (long)sizeof(double); i++)
            if (((double *)(void *)buffer)[i] != (double)i + 1)
                fail("a number is wrong", "not the greater one");
    } else {
        for (size_t i = 0; i < sizeof more / sizeof *more; i++)
            if (call == more[i].call)
                check_more(&more[i]);
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
        fail("usage", "calibrate_coll SECONDS NAME [BYTES]");
    seconds = strtod(argv[1], NULL);
    if (!(seconds > 0 && seconds < 60))
        fail("not a number of seconds", argv[1]);
    if (argc > 3) {
        bytes = strtol(argv[3], &end, 10);
        if (*end || bytes < 1 || bytes > 1L << 30)
            fail("not a number of bytes", argv[3]);
    }
    /* Room for a block of each rank, in either buffer. */
    size_t room = (size_t)bytes * (size_t)size + sizeof(double);
    buffer = calloc(1, room);
    operand = malloc(room);
    if (!buffer || !operand)
        fail("no memory for", argc > 3 ? argv[3] : "nothing");
    memset(operand, 0, room);
    /* The same in each block. */
    for (long i = 0; i < bytes / (long)sizeof(double); i++)
        operand[i] = (double)i + 1;
    for (int r = 1; r < size; r++)
        memcpy((char *)operand + r * bytes, operand, (size_t)bytes);
    if (!strcmp(argv[2], "barrier") && argc == 3)
        measure("barrier", barrier, seconds);
    else if (!strcmp(argv[2], "bcast") && argc == 4)
        measure("bcast", bcast, seconds);
    else if (!strcmp(argv[2], "reduce_local") && argc == 4)
        measure("reduce_local", reduce_local, seconds);
    else {
        const struct call *found = NULL;
        for (size_t i = 0; i < sizeof more / sizeof *more; i++)
            if (argc == 4 && !strcmp(argv[2], more[i].name))
                found = &more[i];
        if (!found)
            fail("no collective, or no BYTES", argv[2]);
        else
            measure(found->name, found->call, seconds);
    }
    free(operand);
    free(buffer);
    MPI_Finalize();
    return 0;
}
