/* Thousands of consecutive calls of one collective, each timed on every rank (muecke-2010, section
 * 5). `mica links run` starts it and reads its file. Arguments: the collective's name without MPI_
 * and in lower case, bytes, calls, the file, and a file that lists counters (links_node.h) or `-`.
 * With `alternate` as a sixth argument, for `mica links cost`, calls are in batches of BATCH, by turns
 * without and with the observer, and entries and returns are those of batches.
 *
 * Bytes are those of a vector (bcast, reductions) or of one rank's block (all others), rounded down
 * to doubles; barrier ignores them. There is no wait between calls, as in the paper. The root is
 * rank 0. Neighbourhood collectives are on a ring; i... is the non-blocking form, completed at once.
 *
 * The file, written by rank 0: a line `mica-links-raw RANKS CALLS NODES COUNTERS`, then for each
 * rank two columns of native doubles, one value a call: when it entered, when it returned, in
 * seconds of rank 0's clock; then for each node COUNTERS columns of CALLS + 1 doubles: the counters
 * before each call, read by one rank of the node, and after the last. Then lines: `refused NODE
 * COUNTER REASON`; `rank R NODE CPU DOMAIN CPU DOMAIN`, where it ran before and after the calls;
 * `numa_maps R BYTES`, followed by the text of its /proc/self/numa_maps.
 *
 * Clocks: each rank exchanges messages with rank 0 before and after the calls; the exchange with
 * the shortest round trip gives the offset, and between both ends it is interpolated. Ranks whose
 * MPI_Wtime is global are left as they are. The result of the last call is checked where it is a
 * sum or a copy of the root's vector. */
#include "bench_mpi.h"
#include "links_node.h"
#include "ticks.h"

enum { EXCHANGES = 100, TAG = 7, BATCH = 100 };

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

/* Neighbourhood collectives on a ring: a block from and to each of two neighbours. */
static MPI_Comm ring;
static MPI_Aint *byte_offsets;

static void neighbor_allgather(void)
{
    MPI_Neighbor_allgather(out, count, DOUBLES, in, count, DOUBLES, ring);
}
static void neighbor_allgatherv(void)
{
    MPI_Neighbor_allgatherv(out, count, DOUBLES, in, counts, places, DOUBLES, ring);
}
static void neighbor_alltoall(void)
{
    MPI_Neighbor_alltoall(out, count, DOUBLES, in, count, DOUBLES, ring);
}
static void neighbor_alltoallv(void)
{
    MPI_Neighbor_alltoallv(out, counts, places, DOUBLES, in, counts, places, DOUBLES, ring);
}
static void neighbor_alltoallw(void)
{
    MPI_Neighbor_alltoallw(out, counts, byte_offsets, types, in, counts, byte_offsets, types, ring);
}

/* The non-blocking forms, each completed at once. */
#define COMPLETED(start)                       \
    do {                                       \
        MPI_Request request;                   \
        start;                                 \
        MPI_Wait(&request, MPI_STATUS_IGNORE); \
    } while (0)

static void ibarrier(void) { COMPLETED(MPI_Ibarrier(world, &request)); }
static void ibcast(void) { COMPLETED(MPI_Ibcast(in, count, DOUBLES, 0, world, &request)); }
static void igather(void)
{
    COMPLETED(MPI_Igather(out, count, DOUBLES, in, count, DOUBLES, 0, world, &request));
}
static void igatherv(void)
{
    COMPLETED(MPI_Igatherv(out, count, DOUBLES, in, counts, places, DOUBLES, 0, world, &request));
}
static void iscatter(void)
{
    COMPLETED(MPI_Iscatter(out, count, DOUBLES, in, count, DOUBLES, 0, world, &request));
}
static void iscatterv(void)
{
    COMPLETED(MPI_Iscatterv(out, counts, places, DOUBLES, in, count, DOUBLES, 0, world, &request));
}
static void iallgather(void)
{
    COMPLETED(MPI_Iallgather(out, count, DOUBLES, in, count, DOUBLES, world, &request));
}
static void iallgatherv(void)
{
    COMPLETED(MPI_Iallgatherv(out, count, DOUBLES, in, counts, places, DOUBLES, world, &request));
}
static void ialltoall(void)
{
    COMPLETED(MPI_Ialltoall(out, count, DOUBLES, in, count, DOUBLES, world, &request));
}
static void ialltoallv(void)
{
    COMPLETED(MPI_Ialltoallv(out, counts, places, DOUBLES, in, counts, places, DOUBLES, world,
                             &request));
}
static void ialltoallw(void)
{
    COMPLETED(MPI_Ialltoallw(out, counts, byte_places, types, in, counts, byte_places, types, world,
                             &request));
}
static void ireduce(void)
{
    COMPLETED(MPI_Ireduce(out, in, count, DOUBLES, MPI_SUM, 0, world, &request));
}
static void iallreduce(void)
{
    COMPLETED(MPI_Iallreduce(out, in, count, DOUBLES, MPI_SUM, world, &request));
}
static void ireduce_scatter_block(void)
{
    COMPLETED(MPI_Ireduce_scatter_block(out, in, count, DOUBLES, MPI_SUM, world, &request));
}
static void ireduce_scatter(void)
{
    COMPLETED(MPI_Ireduce_scatter(out, in, counts, DOUBLES, MPI_SUM, world, &request));
}
static void iscan(void) { COMPLETED(MPI_Iscan(out, in, count, DOUBLES, MPI_SUM, world, &request)); }
static void iexscan(void)
{
    COMPLETED(MPI_Iexscan(out, in, count, DOUBLES, MPI_SUM, world, &request));
}

#define NAMED(name) {#name, name}
static const Collective collectives[] = {
    NAMED(barrier), NAMED(bcast), NAMED(gather), NAMED(gatherv), NAMED(scatter), NAMED(scatterv),
    NAMED(allgather), NAMED(allgatherv), NAMED(alltoall), NAMED(alltoallv), NAMED(alltoallw),
    NAMED(reduce), NAMED(allreduce), NAMED(reduce_scatter_block), NAMED(reduce_scatter),
    NAMED(scan), NAMED(exscan), NAMED(neighbor_allgather), NAMED(neighbor_allgatherv),
    NAMED(neighbor_alltoall), NAMED(neighbor_alltoallv), NAMED(neighbor_alltoallw),
    NAMED(ibarrier), NAMED(ibcast), NAMED(igather), NAMED(igatherv), NAMED(iscatter),
    NAMED(iscatterv), NAMED(iallgather), NAMED(iallgatherv), NAMED(ialltoall), NAMED(ialltoallv),
    NAMED(ialltoallw), NAMED(ireduce), NAMED(iallreduce), NAMED(ireduce_scatter_block),
    NAMED(ireduce_scatter), NAMED(iscan), NAMED(iexscan),
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

static void write_all(FILE *f, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, f) != bytes)
        bench_die("cannot write the file of calls");
}

/* Rank 0 writes a column of rank `other`, which sends it. One column at a time, so that rank 0 needs
 * no memory for all. */
static void write_column(FILE *f, int other, double *column, long values)
{
    if (rank == other && rank != 0)
        MPI_Send(column, (int)values, DOUBLES, 0, TAG, world);
    if (rank != 0)
        return;
    double *from = column;
    if (other != 0) {
        from = (double *)bench_alloc((size_t)values * sizeof *from, 0);
        MPI_Recv(from, (int)values, DOUBLES, other, TAG, world, MPI_STATUS_IGNORE);
    }
    write_all(f, from, (size_t)values * sizeof *from);
    if (other != 0)
        free(from);
}

/* Rank 0 writes a text of rank `other`. */
static void write_text(FILE *f, int other, char *text, long bytes)
{
    if (rank == other && rank != 0) {
        MPI_Send(&bytes, 1, MPI_LONG, 0, TAG, world);
        MPI_Send(text, (int)bytes, MPI_CHAR, 0, TAG, world);
    }
    if (rank != 0)
        return;
    char *from = text;
    if (other != 0) {
        MPI_Recv(&bytes, 1, MPI_LONG, other, TAG, world, MPI_STATUS_IGNORE);
        from = bench_alloc((size_t)bytes, 0);
        MPI_Recv(from, (int)bytes, MPI_CHAR, other, TAG, world, MPI_STATUS_IGNORE);
    }
    write_all(f, from, (size_t)bytes);
    if (other != 0)
        free(from);
}

/* The nodes of the job: this rank's, how many there are, and the rank of each that reads counters. */
typedef struct {
    int mine, count, *readers;
} Nodes;

static Nodes nodes(void)
{
    MPI_Comm here;
    int first = rank;
    Nodes all = {0, 0, malloc((size_t)size * sizeof(int))};
    int *firsts = malloc((size_t)size * sizeof *firsts);
    if (!all.readers || !firsts)
        bench_die("no memory");
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
    MPI_Bcast(&first, 1, MPI_INT, 0, here);
    MPI_Comm_free(&here);
    MPI_Allgather(&first, 1, MPI_INT, firsts, 1, MPI_INT, world);
    for (int other = 0; other < size; other++) {
        if (first == other)
            all.mine = all.count;
        if (firsts[other] == other)
            all.readers[all.count++] = other;
    }
    free(firsts);
    return all;
}

/* What one rank has observed. */
typedef struct {
    double *entry, *exit, *readings; /* readings: a column of calls + 1 values for each counter */
    Counters counters;
    int before[2], after[2]; /* processor and memory domain */
} Observed;

static void write_file(const char *file, Observed *seen, long calls, const Nodes *all)
{
    char line[256], *maps;
    long bytes;
    FILE *f = NULL;
    if (rank == 0 && !(f = fopen(file, "wb")))
        bench_die("cannot write %s", file);
    /* Rank 0 and all readers have the same list; the others have none, and send no readings. No
     * collective here: the last ones in the library's account are the observed calls. */
    int counters = seen->counters.count;
    if (rank == 0)
        fprintf(f, "mica-links-raw %d %ld %d %d\n", size, calls, all->count, counters);
    for (int other = 0; other < size; other++) {
        write_column(f, other, seen->entry, calls);
        write_column(f, other, seen->exit, calls);
    }
    for (int node = 0; node < all->count; node++)
        for (int c = 0; c < counters; c++)
            write_column(f, all->readers[node], seen->readings + c * (calls + 1), calls + 1);
    for (int node = 0; node < all->count; node++)
        for (int c = 0; c < counters; c++) {
            int error = seen->counters.errors[c];
            snprintf(line, sizeof line, "refused %d %d %s\n", node, c, strerror(error));
            write_text(f, all->readers[node], line, error ? (long)strlen(line) : 0);
        }
    maps = text_of("/proc/self/numa_maps", &bytes);
    for (int other = 0; other < size; other++) {
        snprintf(line, sizeof line, "rank %d %d %d %d %d %d\nnuma_maps %d %ld\n", rank, all->mine,
                 seen->before[0], seen->before[1], seen->after[0], seen->after[1], rank, bytes);
        write_text(f, other, line, (long)strlen(line));
        write_text(f, other, maps, bytes);
    }
    free(maps);
    if (rank == 0 && fclose(f))
        bench_die("cannot write %s", file);
}

/* All ranks put in rank + 1; rank 0's vector of a bcast holds 1. */
static void check(const char *name)
{
    double sum = size * (size + 1.0) / 2, want = -1;
    name += *name == 'i'; /* no blocking one begins so */
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
    int blocks = size < 2 ? 2 : size; /* a rank has two neighbours on the ring */
    size_t all = (size_t)(count ? count : 1) * (size_t)blocks;
    out = (double *)bench_alloc(all * sizeof *out, 0);
    in = (double *)bench_alloc(all * sizeof *in, 0);
    counts = malloc(3 * (size_t)blocks * sizeof *counts);
    types = malloc((size_t)blocks * sizeof *types);
    byte_offsets = malloc((size_t)blocks * sizeof *byte_offsets);
    if (!counts || !types || !byte_offsets)
        bench_die("no memory");
    MPI_Cart_create(world, 1, &size, &(int){1}, 0, &ring);
    places = counts + blocks;
    byte_places = places + blocks;
    for (int other = 0; other < blocks; other++) {
        counts[other] = count;
        places[other] = other * count;
        byte_places[other] = other * count * (int)sizeof(double);
        byte_offsets[other] = (MPI_Aint)byte_places[other];
        types[other] = DOUBLES;
    }
    for (size_t i = 0; i < all; i++) {
        out[i] = rank + 1;
        in[i] = rank + 1;
    }
}

/* Where no counters are read in between, a call is entered when the last one has returned: one
 * reading of the clock for both, and one column until the calls are over. Readings and pages that
 * are touched take their time where ranks share cores. */
static void observe(void (*call)(void), long calls, Observed *seen)
{
    int counters = seen->readings ? seen->counters.count : 0;
    const int *descriptors = seen->counters.descriptors;
    TickClock clock;
    tick_clock_start(&clock);
    double start = tick_clock_now(&clock);
    for (long i = 0; i <= calls; i++) {
        for (int c = 0; c < counters; c++)
            seen->readings[c * (calls + 1) + i] = counter_read(descriptors[c]);
        if (i == calls)
            break;
        if (counters)
            seen->entry[i] = tick_clock_now(&clock);
        call();
        seen->exit[i] = tick_clock_now(&clock);
    }
    tick_clock_stop(&clock);
    for (long i = 0; i < calls && !counters; i++)
        seen->entry[i] = i ? seen->exit[i - 1] : start;
    for (long i = 0; i < calls; i++) {
        seen->entry[i] = tick_clock_seconds(&clock, seen->entry[i]);
        seen->exit[i] = tick_clock_seconds(&clock, seen->exit[i]);
    }
}

/* Batches without and with what `observe` does for a call and the library's account, which
 * MPI_Pcontrol stops: in one job, since jobs of one kind differ by more than the observer costs. */
static long alternate(void (*call)(void), long calls, Observed *seen)
{
    long batches = calls / BATCH;
    double *returned = (double *)bench_alloc((size_t)calls * sizeof *returned, 0);
    TickClock clock;
    tick_clock_start(&clock);
    for (long b = 0; b < batches; b++) {
        int observed = b % 2;
        MPI_Pcontrol(observed);
        seen->entry[b] = MPI_Wtime();
        for (long i = b * BATCH; i < (b + 1) * BATCH; i++) {
            call();
            if (observed)
                returned[i] = tick_clock_now(&clock);
        }
        seen->exit[b] = MPI_Wtime();
    }
    free(returned);
    return batches;
}

int main(int argc, char **argv)
{
    const Collective *chosen = NULL;
    static Observed seen;
    MPI_Init(&argc, &argv);
    if (argc != 6 && (argc != 7 || strcmp(argv[6], "alternate") != 0))
        bench_die("arguments: COLLECTIVE BYTES CALLS FILE COUNTERS [alternate]");
    for (int c = 0; c < COLLECTIVES; c++)
        if (!strcmp(argv[1], collectives[c].name))
            chosen = &collectives[c];
    long bytes = atol(argv[2]), calls = atol(argv[3]);
    if (!chosen)
        bench_die("there is no collective %s", argv[1]);
    if (bytes < 0 || calls < (argc == 7 ? BATCH : 1) || calls > 100000000)
        bench_die("bytes 0 or more, calls 1 to 100000000 (alternate: 100 or more)");
    prepare(bytes);
    seen.entry = (double *)bench_alloc((size_t)calls * sizeof *seen.entry, 0);
    seen.exit = (double *)bench_alloc((size_t)calls * sizeof *seen.exit, 0);
    Nodes all = nodes();
    if (strcmp(argv[5], "-") != 0 && all.readers[all.mine] == rank) {
        if (!counters_open(&seen.counters, argv[5]))
            bench_die("cannot read %s, which lists the counters", argv[5]);
        size_t values = (size_t)seen.counters.count * (size_t)(calls + 1);
        seen.readings = (double *)bench_alloc(values * sizeof *seen.readings, 0);
    }
    int *global = NULL, found = 0;
    MPI_Comm_get_attr(world, MPI_WTIME_IS_GLOBAL, &global, &found);
    int aligned = found && *global;
    Offset before = offset();
    for (int i = 0; i < 10; i++) /* warm-up */
        chosen->call();
    where_now(&seen.before[0], &seen.before[1]);
    if (argc == 7)
        calls = alternate(chosen->call, calls, &seen);
    else
        observe(chosen->call, calls, &seen);
    where_now(&seen.after[0], &seen.after[1]);
    check(chosen->name);
    Offset after = offset();
    if (!aligned) {
        align(seen.entry, calls, before, after);
        align(seen.exit, calls, before, after);
    }
    write_file(argv[4], &seen, calls, &all);
    MPI_Finalize();
    return 0;
}
