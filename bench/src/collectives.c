/* One collective operation on all ranks: microseconds a call, the slowest rank's time, the median
 * of 15 batches. Arguments: allreduce, alltoall or bcast, and sizes (default 8, 1K, 64K, 1M).
 *
 *   "allreduce"  MPI_Allreduce of doubles by MPI_SUM; bytes are those of a rank's vector
 *   "alltoall"   MPI_Alltoall; bytes are what a rank sends to each other one
 *   "bcast"      MPI_Bcast, from another root each time; bytes are those of the message
 *
 * Operations follow each other without a barrier. Every call's first element is checked, and all
 * elements of the last call of a size. */
#include "bench_mpi.h"

static int rank, size;
static long number; /* of the call, in the whole run */

typedef struct {
    double *out, *in;
    int count; /* doubles, with alltoall for each rank */
} Buffers;

typedef double Expect(long number, int block, int at);

/* What rank `from` puts in at place `at`. Whole numbers, so that sums are exact in any order. */
static double value(long call, int from, int at)
{
    return (double)((call + at) % 1000 + from);
}

static void fill(const Buffers *b, int blocks)
{
    for (int k = 0; k < blocks; k++) {
        b->out[(size_t)k * (size_t)b->count] = value(number, rank, k);
        if (b->count > 1)
            b->out[(size_t)(k + 1) * (size_t)b->count - 1] = value(number, rank, b->count - 1 + k);
    }
}

static void expect(double got, double want, int block)
{
    if (got != want)
        bench_die("call %ld: block %d of rank %d has %g, not %g", number, block, rank, got, want);
}

/* First and last element of each block. */
static void check(const Buffers *b, int blocks, Expect *wanted)
{
    for (int k = 0; k < blocks; k++) {
        const double *block = b->in + (size_t)k * (size_t)b->count;
        expect(block[0], wanted(number, k, 0), k);
        if (b->count > 1)
            expect(block[b->count - 1], wanted(number, k, b->count - 1), k);
    }
}

static double sum(long call, int block, int at)
{
    double all = 0;
    (void)block;
    for (int from = 0; from < size; from++)
        all += value(call, from, at);
    return all;
}

static double mine(long call, int block, int at)
{
    return value(call, block, at + rank);
}

static double of_root(long call, int block, int at)
{
    (void)block;
    return value(call, (int)(call % size), at);
}

static double slowest(double start)
{
    double took = MPI_Wtime() - start, most;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double allreduce(void *arg, long n)
{
    const Buffers *b = arg;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++) {
        fill(b, 1);
        MPI_Allreduce(b->out, b->in, b->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check(b, 1, sum);
    }
    return slowest(start);
}

static double alltoall(void *arg, long n)
{
    const Buffers *b = arg;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++) {
        fill(b, size);
        MPI_Alltoall(b->out, b->count, MPI_DOUBLE, b->in, b->count, MPI_DOUBLE, MPI_COMM_WORLD);
        check(b, size, mine);
    }
    return slowest(start);
}

static double bcast(void *arg, long n)
{
    const Buffers *b = arg;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++) {
        Buffers whole = {b->in, b->in, b->count};
        int root = (int)(number % size);
        if (rank == root)
            fill(&whole, 1);
        MPI_Bcast(b->in, b->count, MPI_DOUBLE, root, MPI_COMM_WORLD);
        check(b, 1, of_root);
    }
    return slowest(start);
}

static void measure(const char *name, BenchRun *run, long bytes)
{
    size_t all = (size_t)bytes * (size_t)(run == alltoall ? size : 1);
    double batch[BATCHES];
    if (bytes % (long)sizeof(double) || bytes == 0)
        bench_die("%ld bytes are no whole number of doubles, or none", bytes);
    Buffers b = {(double *)bench_alloc(all, 0), (double *)bench_alloc(all, 0),
                 (int)(bytes / (long)sizeof(double))};
    long n = bench_measure(run, &b, 0.03, batch);
    for (int i = 0; i < BATCHES; i++)
        batch[i] *= 1e6;
    if (rank == 0)
        bench_print(name, bytes, size, batch, "us", n);
    free(b.in);
    free(b.out);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        BenchRun *run;
    } all[] = {{"allreduce", allreduce}, {"alltoall", alltoall}, {"bcast", bcast}};
    static const int usual[] = {8, 1024, 65536, 1048576};
    int found = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3 && argc > 1; i++)
        if (!strcmp(argv[1], all[i].name))
            found = i;
    if (found < 0)
        bench_die("expected allreduce, alltoall or bcast first");
    else if (argc > 2)
        for (int i = 2; i < argc; i++)
            measure(all[found].name, all[found].run, bench_bytes(argv[i]));
    else
        for (int i = 0; i < 4; i++)
            measure(all[found].name, all[found].run, usual[i]);
    MPI_Finalize();
    return 0;
}
