/* One-sided communication as programs do it: one rank writes the data just before, and the other
 * reads them just after. (In rma.c only their first bytes change, so that they stay in the cache of
 * the origin's core.) With 2 ranks; in microseconds:
 *
 *   rma put fresh          rank 0 fills its buffer, puts it and flushes; rank 1, which waits in
 *                          MPI_Barrier meanwhile, then reads it all
 *   rma accumulate fresh   the same with a sum of 64-bit integers
 *   rma get fresh          rank 1 fills its window; rank 0 gets it, flushes and reads it all
 *
 * Only the operation and its flush count. argv: NAME [SIZE...]; NAME is put, accumulate or get. */
#include "distance.h"

#include <stdint.h>

struct fresh {
    MPI_Win win;
    int64_t *part, *buffer;
    int n; /* elements */
    int rank;
    int64_t done, sum; /* operations; what each element of a sum has */
    struct distance *distance;
};

typedef void Operation(struct fresh *f);

static void put(struct fresh *f)
{
    MPI_Put(f->buffer, f->n, MPI_INT64_T, 1, 0, f->n, MPI_INT64_T, f->win);
}

static void accumulate(struct fresh *f)
{
    MPI_Accumulate(f->buffer, f->n, MPI_INT64_T, 1, 0, f->n, MPI_INT64_T, MPI_SUM, f->win);
}

static void get(struct fresh *f)
{
    MPI_Get(f->buffer, f->n, MPI_INT64_T, 1, 0, f->n, MPI_INT64_T, f->win);
}

static void make(int64_t *data, int n, int64_t number)
{
    for (int i = 0; i < n; i++)
        data[i] = number + i;
}

/* Ends the job unless the elements are those of the sum of `times` such data. */
static void use(const int64_t *data, int n, int64_t number, int64_t times)
{
    int64_t wrong = 0;
    for (int i = 0; i < n; i++)
        wrong |= data[i] ^ (number + times * i);
    if (wrong)
        bench_die("the data of number %lld are not those expected", (long long)number);
}

struct task {
    struct fresh *fresh;
    Operation *operation;
};

static double run(void *arg, long n)
{
    struct fresh *f = ((struct task *)arg)->fresh;
    Operation *operation = ((struct task *)arg)->operation;
    int maker = operation == get;
    double counted = 0;
    distance_measure(f->distance);
    for (long i = 0; i < n; i++) {
        f->done++;
        f->sum += f->done;
        if (f->rank == maker)
            make(maker ? f->part : f->buffer, f->n, f->done);
        MPI_Win_sync(f->win);
        if (maker)
            MPI_Barrier(MPI_COMM_WORLD);
        if (f->rank == 0) {
            double start = MPI_Wtime();
            operation(f);
            MPI_Win_flush(1, f->win);
            counted += MPI_Wtime() - start;
            if (maker)
                use(f->buffer, f->n, f->done, 1);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(f->win);
        if (f->rank == 1 && operation == put)
            use(f->part, f->n, f->done, 1);
        else if (f->rank == 1 && operation == accumulate)
            use(f->part, f->n, f->sum, f->done);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return counted;
}

static void measure(const char *name, Operation *operation, struct distance *distance, int rank,
                    long bytes)
{
    struct fresh f = {.rank = rank, .n = (int)(bytes / 8), .distance = distance};
    struct task task = {&f, operation};
    double batch[BATCHES];
    char measure[64], key[64];
    if (bytes < 8 || bytes % 8)
        bench_die("%ld bytes are not a multiple of 8", bytes);
    f.buffer = (int64_t *)bench_alloc((size_t)bytes, 0);
    MPI_Win_allocate((MPI_Aint)bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &f.part, &f.win);
    MPI_Win_lock_all(0, f.win);
    memset(f.part, 0, (size_t)bytes);
    MPI_Win_sync(f.win);
    MPI_Barrier(MPI_COMM_WORLD);
    long n = bench_measure(run, &task, 0.02, batch);
    MPI_Win_unlock_all(f.win);
    for (int b = 0; b < BATCHES; b++)
        batch[b] *= 1e6;
    snprintf(measure, sizeof measure, "rma %s fresh", name);
    if (rank == 0)
        bench_print_more(measure, bytes, 2, batch, "us", n,
                         distance_key(distance, key, sizeof key));
    MPI_Win_free(&f.win);
    free(f.buffer);
}

int main(int argc, char **argv)
{
    struct distance distance;
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *name = argc > 1 ? argv[1] : "put";
    Operation *operation = !strcmp(name, "put")          ? put
                           : !strcmp(name, "accumulate") ? accumulate
                           : !strcmp(name, "get")        ? get
                                                         : NULL;
    if (!operation)
        bench_die("'%s' is none of the measures", name);
    if (ranks != 2)
        bench_die("not for %d ranks", ranks);
    distance_open(&distance);
    if (argc < 3)
        measure(name, operation, &distance, rank, 65536);
    for (int i = 2; i < argc; i++)
        measure(name, operation, &distance, rank, bench_bytes(argv[i]));
    distance_close(&distance);
    MPI_Finalize();
    return 0;
}
