/* Thousands of consecutive calls of one collective, each timed on every rank (muecke-2010, section
 * 5). `mica links run` starts it and reads its file. Arguments: the collective's name without MPI_
 * and in lower case, bytes, calls, the file.
 *
 * Bytes are those of a vector (bcast, reductions) or of one rank's block (all others), rounded down
 * to doubles; barrier ignores them. There is no wait between calls, as in the paper. The root is
 * rank 0.
 *
 * The file, written by rank 0: a line `mica-links-raw RANKS CALLS`, then for each rank two columns
 * of native doubles, one value a call: when it entered, when it returned, in seconds of rank 0's
 * clock. Clocks: each rank exchanges messages with rank 0 before and after the calls; the exchange
 * with the shortest round trip gives the offset, and between both ends it is interpolated. Ranks
 * whose MPI_Wtime is global are left as they are. The result of the last call is checked where it
 * is a sum or a copy of the root's vector. */
#include "bench_mpi.h"

enum { EXCHANGES = 100, TAG = 7 };

typedef struct {
    const char *name;
    void (*call)(void);
} Collective;

static int rank, size, count, *counts, *places, *byte_places;
static double *out, *in;
static MPI_Datatype *types;
static const MPI_Comm world = MPI_COMM_WORLD;
#define DOUBLES MPI_DOUBLE

static void barrier(void) { MPI_Barrier(world); }
static void bcast(void) { MPI_Bcast(in, count, DOUBLES, 0, world); }
static void gather(void) { MPI_Gather(out, count, DOUBLES, in, count, DOUBLES, 0, world); }
static void gatherv(void)
{
    MPI_Gatherv(out, count, DOUBLES, in, counts, places, DOUBLES, 0, world);
}
static void scatter(void) { MPI_Scatter(out, count, DOUBLES, in, count, DOUBLES, 0, world); }
static void scatterv(void)
{
    MPI_Scatterv(out, counts, places, DOUBLES, in, count, DOUBLES, 0, world);
}
static void allgather(void) { MPI_Allgather(out, count, DOUBLES, in, count, DOUBLES, world); }
static void allgatherv(void)
{
    MPI_Allgatherv(out, count, DOUBLES, in, counts, places, DOUBLES, world);
}
static void alltoall(void) { MPI_Alltoall(out, count, DOUBLES, in, count, DOUBLES, world); }
static void alltoallv(void)
{
    MPI_Alltoallv(out, counts, places, DOUBLES, in, counts, places, DOUBLES, world);
}
static void alltoallw(void)
{
    MPI_Alltoallw(out, counts, byte_places, types, in, counts, byte_places, types, world);
}
static void reduce(void) { MPI_Reduce(out, in, count, DOUBLES, MPI_SUM, 0, world); }
static void allreduce(void) { MPI_Allreduce(out, in, count, DOUBLES, MPI_SUM, world); }
static void reduce_scatter_block(void)
{
    MPI_Reduce_scatter_block(out, in, count, DOUBLES, MPI_SUM, world);
}
static void reduce_scatter(void)
{
    MPI_Reduce_scatter(out, in, counts, DOUBLES, MPI_SUM, world);
}
static void scan(void) { MPI_Scan(out, in, count, DOUBLES, MPI_SUM, world); }
static void exscan(void) { MPI_Exscan(out, in, count, DOUBLES, MPI_SUM, world); }

static const Collective collectives[] = {
    {"barrier", barrier},
    {"bcast", bcast},
    {"gather", gather},
    {"gatherv", gatherv},
    {"scatter", scatter},
    {"scatterv", scatterv},
    {"allgather", allgather},
    {"allgatherv", allgatherv},
    {"alltoall", alltoall},
    {"alltoallv", alltoallv},
    {"alltoallw", alltoallw},
    {"reduce", reduce},
    {"allreduce", allreduce},
    {"reduce_scatter_block", reduce_scatter_block},
    {"reduce_scatter", reduce_scatter},
    {"scan", scan},
    {"exscan", exscan},
};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

/* How far this rank's clock is ahead of rank 0's, and when (on this rank's clock). */
typedef struct {
    double ahead, at;
} Offset;

static Offset offset(void)
{
    Offset mine = {0, MPI_Wtime()};
    for (int other = 1; other < size; other++) {
        double shortest = 1e30;
        for (int i = 0; i < EXCHANGES && (rank == 0 || rank == other); i++) {
            double there, from, to;
            if (rank == other) {
                MPI_Recv(&there, 1, DOUBLES, 0, TAG, world, MPI_STATUS_IGNORE);
                there = MPI_Wtime();
                MPI_Send(&there, 1, DOUBLES, 0, TAG, world);
                continue;
            }
            from = MPI_Wtime();
            MPI_Send(&from, 1, DOUBLES, other, TAG, world);
            MPI_Recv(&there, 1, DOUBLES, other, TAG, world, MPI_STATUS_IGNORE);
            to = MPI_Wtime();
            if (to - from < shortest) {
                shortest = to - from;
                mine.ahead = there - (from + to) / 2;
                mine.at = there;
            }
        }
        if (rank == 0)
            MPI_Send(&mine, 2, DOUBLES, other, TAG, world);
        if (rank == other)
            MPI_Recv(&mine, 2, DOUBLES, 0, TAG, world, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        mine.ahead = 0;
    return mine;
}

/* Times of this rank's clock become those of rank 0's. */
static void align(double *times, long calls, Offset before, Offset after)
{
    double span = after.at - before.at;
    double drift = span > 0 ? (after.ahead - before.ahead) / span : 0;
    for (long i = 0; i < calls; i++)
        times[i] -= before.ahead + drift * (times[i] - before.at);
}

/* Rank 0 collects a column at a time, so that it needs no memory for all. */
static void write_columns(const char *file, double *entry, double *exit, long calls)
{
    FILE *f = NULL;
    if (rank != 0) {
        MPI_Send(entry, (int)calls, DOUBLES, 0, TAG, world);
        MPI_Send(exit, (int)calls, DOUBLES, 0, TAG, world);
        return;
    }
    if (!(f = fopen(file, "wb")))
        bench_die("cannot write %s", file);
    fprintf(f, "mica-links-raw %d %ld\n", size, calls);
    for (int other = 0; other < size; other++)
        for (int column = 0; column < 2; column++) {
            double *times = column ? exit : entry;
            if (other > 0)
                MPI_Recv(times, (int)calls, DOUBLES, other, TAG, world, MPI_STATUS_IGNORE);
            if (fwrite(times, sizeof *times, (size_t)calls, f) != (size_t)calls)
                bench_die("cannot write %s", file);
        }
    if (fclose(f))
        bench_die("cannot write %s", file);
}

/* All ranks put in rank + 1; rank 0's vector of a bcast holds 1. */
static void check(const char *name)
{
    double sum = size * (size + 1.0) / 2, want = -1;
    if (!strcmp(name, "allreduce") || (!strcmp(name, "reduce") && rank == 0))
        want = sum;
    else if (!strncmp(name, "reduce_scatter", 14))
        want = sum;
    else if (!strcmp(name, "bcast"))
        want = 1;
    else if (!strcmp(name, "scan"))
        want = (rank + 1) * (rank + 2.0) / 2;
    for (int i = 0; want >= 0 && i < count; i++)
        if (in[i] != want)
            bench_die("%s: element %d is %g, not %g", name, i, in[i], want);
}

static void prepare(long bytes)
{
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    if ((double)bytes * size > 2e9)
        bench_die("%ld bytes for each of %d ranks: more than 2 GB in a buffer", bytes, size);
    count = (int)(bytes / (long)sizeof(double));
    size_t all = (size_t)(count ? count : 1) * (size_t)size;
    out = (double *)bench_alloc(all * sizeof *out, 0);
    in = (double *)bench_alloc(all * sizeof *in, 0);
    counts = malloc(3 * (size_t)size * sizeof *counts);
    types = malloc((size_t)size * sizeof *types);
    if (!counts || !types)
        bench_die("no memory");
    places = counts + size;
    byte_places = places + size;
    for (int other = 0; other < size; other++) {
        counts[other] = count;
        places[other] = other * count;
        byte_places[other] = other * count * (int)sizeof(double);
        types[other] = DOUBLES;
    }
    for (size_t i = 0; i < all; i++) {
        out[i] = rank + 1;
        in[i] = rank + 1;
    }
}

int main(int argc, char **argv)
{
    const Collective *chosen = NULL;
    MPI_Init(&argc, &argv);
    if (argc != 5)
        bench_die("arguments: COLLECTIVE BYTES CALLS FILE");
    for (int c = 0; c < COLLECTIVES; c++)
        if (!strcmp(argv[1], collectives[c].name))
            chosen = &collectives[c];
    long bytes = atol(argv[2]), calls = atol(argv[3]);
    if (!chosen)
        bench_die("there is no collective %s", argv[1]);
    if (bytes < 0 || calls < 1 || calls > 100000000)
        bench_die("bytes 0 or more, calls 1 to 100000000");
    prepare(bytes);
    double *entry = (double *)bench_alloc((size_t)calls * sizeof *entry, 0);
    double *exit = (double *)bench_alloc((size_t)calls * sizeof *exit, 0);
    int *global = NULL, found = 0;
    MPI_Comm_get_attr(world, MPI_WTIME_IS_GLOBAL, &global, &found);
    int aligned = found && *global;
    Offset before = offset();
    for (int i = 0; i < 10; i++) /* warm-up */
        chosen->call();
    for (long i = 0; i < calls; i++) {
        entry[i] = MPI_Wtime();
        chosen->call();
        exit[i] = MPI_Wtime();
    }
    Offset after = offset();
    check(chosen->name);
    if (!aligned) {
        align(entry, calls, before, after);
        align(exit, calls, before, after);
    }
    write_columns(argv[4], entry, exit, calls);
    MPI_Finalize();
    return 0;
}
