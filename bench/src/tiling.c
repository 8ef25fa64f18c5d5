/* Data tiling in a ring (chai-2009, 2.2.4, Figure 2.6).
 *
 * Each of n processes has 64 MiB of data. Four times it computes on its data, sends them to its
 * right neighbour and receives its left neighbour's. Two ways give the same result:
 *
 *     "data tiling whole"    four rounds over all data: compute on 64 MiB, MPI_Sendrecv of 64 MiB
 *     "data tiling tiled"    256 KiB after 256 KiB: four rounds of compute and MPI_Sendrecv
 *                            on this chunk, so that what just arrived is in the cache still
 *
 * Milliseconds for all of it, the slowest rank's, from a barrier on; the median of 7 runs (3 at
 * least, if they take longer than 4 s, as with more ranks than cores), the two ways in turn. "data
 * tiling whole rate" and "data tiling tiled rate" are the data that a rank sends in that time (4 x
 * 64 MiB) in MB/s; "data tiling benefit" is the time saved in percent, as in the figure.
 *
 * The computation changes every 64-bit word. After every run each rank recomputes every word from
 * the rank it started on (not timed). Arguments: bytes of data (default 64 MiB), bytes of a chunk
 * (256 KiB). */
#include "compute.h"

enum { ROUNDS = 4, RUNS = 7 }; /* ROUNDS is even: the data end in the buffer they started in */
static int rank, size;

static inline uint64_t step(uint64_t word)
{
    return word + (word >> 7) + 1;
}

static uint64_t initial(int owner, long at)
{
    return ((uint64_t)owner + 1) * 0x9e3779b97f4a7c15u + (uint64_t)at * 0xd1342543de82ef95u;
}

static void compute(uint64_t *data, long words)
{
    for (long i = 0; i < words; i++)
        data[i] = step(data[i]);
}

/* ROUNDS rounds on these words, by way of `spare`. */
static void rounds(uint64_t *data, uint64_t *spare, long words)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        compute(data, words);
        MPI_Sendrecv(data, (int)words, MPI_UINT64_T, right, 0, spare, (int)words, MPI_UINT64_T,
                     left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        uint64_t *other = data;
        data = spare;
        spare = other;
    }
}

/* All data in chunks of `words` words; the slowest rank's seconds. */
static double run(uint64_t *data, uint64_t *spare, long words, long chunk)
{
    for (long i = 0; i < words; i++)
        data[i] = initial(rank, i);
    MPI_Barrier(MPI_COMM_WORLD);
    double time = now();
    for (long at = 0; at < words; at += chunk)
        rounds(data + at, spare, words - at < chunk ? words - at : chunk);
    time = now() - time;
    int owner = (rank + ROUNDS * (size - 1)) % size; /* ROUNDS ranks to the left */
    for (long i = 0; i < words; i++) {
        uint64_t want = initial(owner, i);
        for (int round = 0; round < ROUNDS; round++)
            want = step(want);
        if (data[i] != want)
            bench_die("chunks of %ld words: word %ld of rank %d's data is wrong on rank %d", chunk,
                      i, owner, rank);
    }
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return time;
}

int main(int argc, char **argv)
{
    static const char *const names[2][2] = {{"data tiling whole", "data tiling whole rate"},
                                            {"data tiling tiled", "data tiling tiled rate"}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long bytes = argc > 1 ? bench_bytes(argv[1]) : 64L << 20;
    long chunk = argc > 2 ? bench_bytes(argv[2]) : 256L << 10;
    if (size < 2)
        bench_die("a ring needs 2 ranks, has %d", size);
    if (bytes % 8 || chunk % 8 || chunk < 8 || chunk > bytes)
        bench_die("%ld and %ld bytes: wants multiples of 8, and chunks no longer than the data",
                  bytes, chunk);
    uint64_t *data = allocate((size_t)bytes), *spare = allocate((size_t)bytes);
    double ms[2][RUNS], rate[2][RUNS], benefit[RUNS];
    run(data, spare, bytes / 8, chunk / 8); /* warm-up */
    int runs = 0;
    double start = now();
    for (int more = 1; more; runs++) {
        int i = runs;
        for (int tiled = 0; tiled < 2; tiled++) {
            double time = run(data, spare, bytes / 8, (tiled ? chunk : bytes) / 8);
            ms[tiled][i] = time * 1e3;
            rate[tiled][i] = ROUNDS * (double)bytes / time * 1e-6;
        }
        benefit[i] = 100 * (1 - ms[1][i] / ms[0][i]);
        more = i + 1 < RUNS && (i + 1 < 3 || now() - start < 4);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int tiled = 0; tiled < 2 && rank == 0; tiled++) {
        char extra[64];
        snprintf(extra, sizeof extra, ", \"chunk\": %ld", tiled ? chunk : bytes);
        figure(names[tiled][0], bytes, size, ms[tiled], runs, "ms", ROUNDS, extra);
        figure(names[tiled][1], bytes, size, rate[tiled], runs, "MB/s", ROUNDS, extra);
    }
    if (rank == 0)
        figure("data tiling benefit", bytes, size, benefit, runs, "%", ROUNDS, "");
    free(data);
    free(spare);
    MPI_Finalize();
    return 0;
}
