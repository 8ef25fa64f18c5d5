/* A kernel in the manner of CPMD: computation between many MPI_Alltoall of medium blocks, as
 * ma-2011 found them (4.2: 24 KB on average, more than 90 % of the time inside of MPI; Table 2:
 * Bcast 3.6, Allreduce 3.5, Barrier 2.2 %).
 *
 * Every rank has a block of 64-bit numbers for each rank. One exchange computes with every number
 * and trades blocks by MPI_Alltoall. A step is 8 exchanges, then one MPI_Bcast of a block from
 * another root each time, one MPI_Allreduce of a block, and one MPI_Barrier; a pass is 12 steps.
 * Figures, each the median of 15 passes:
 *
 *     "cpmd"        milliseconds of a pass on the slowest rank
 *     "cpmd mpi"    of that inside of MPI, the ranks' mean, which contains waiting for slower ranks
 *     "cpmd call"   inside of one call, said by key "call"
 *     "cpmd share"  the same in hundredths of the time inside of MPI
 *
 * What is computed is x -> a x + b modulo 2^64, 12 times for each number, with other a and b in
 * every exchange: exact, and known from where a number began. The first and last number of each
 * block are checked in every exchange, all numbers after every pass (not timed), broadcasts and
 * sums in each step. Arguments: bytes of a block (24K), steps of a pass (12). */
#include "calls.h"

enum { EXCHANGES = 8, STEPS = 12, PASSES = 15, WARM_UP_PASSES = 3, ROUNDS = 12 };
enum { ALLTOALL, BCAST, ALLREDUCE, BARRIER, CALLS };
static const char *const names[CALLS] = {"Alltoall", "Bcast", "Allreduce", "Barrier"};

static int rank, size, count; /* of numbers in a block */
static uint64_t *mine, *theirs, *shared, *sums;
static uint64_t exchange_number, step_number;
static uint64_t all_a = 1, all_b; /* the maps of all exchanges as one */

static uint64_t hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* What place `at` of rank `owner`'s block for rank `to` holds in the beginning. */
static uint64_t initial(int owner, int to, int at)
{
    return hash(((uint64_t)owner * (uint64_t)size + (uint64_t)to) * (uint64_t)count + (uint64_t)at);
}

/* What it holds now: blocks have changed places by every exchange. */
static uint64_t current(int owner, int block, int at)
{
    uint64_t began =
        exchange_number % 2 ? initial(block, owner, at) : initial(owner, block, at);
    return all_a * began + all_b;
}

static void expect(int block, int at)
{
    uint64_t got = mine[(size_t)block * (size_t)count + (size_t)at];
    if (got != current(rank, block, at))
        bench_die("exchange %llu: number %d of block %d of rank %d is %llx, not %llx",
                  (unsigned long long)exchange_number, at, block, rank, (unsigned long long)got,
                  (unsigned long long)current(rank, block, at));
}

static void exchange(void)
{
    uint64_t a = hash(2 * exchange_number) | 1, b = hash(2 * exchange_number + 1);
    size_t numbers = (size_t)size * (size_t)count;
    for (size_t i = 0; i < numbers; i++) {
        uint64_t x = mine[i];
        for (int k = 0; k < ROUNDS; k++)
            x = a * x + b;
        theirs[i] = x;
    }
    for (int k = 0; k < ROUNDS; k++) {
        all_a *= a;
        all_b = a * all_b + b;
    }
    IN_CALL(ALLTOALL, MPI_Alltoall(theirs, count, MPI_UINT64_T, mine, count, MPI_UINT64_T,
                                   MPI_COMM_WORLD));
    exchange_number++;
    for (int block = 0; block < size; block++) {
        expect(block, 0);
        expect(block, count - 1);
    }
}

static void step(void)
{
    int root = (int)(step_number % (uint64_t)size), ends[2] = {0, count - 1};
    for (int i = 0; i < EXCHANGES; i++)
        exchange();
    if (rank == root)
        memcpy(shared, mine, (size_t)count * sizeof *shared);
    IN_CALL(BCAST, MPI_Bcast(shared, count, MPI_UINT64_T, root, MPI_COMM_WORLD));
    IN_CALL(ALLREDUCE,
            MPI_Allreduce(mine, sums, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    for (int e = 0; e < 2; e++) {
        uint64_t sum = 0;
        for (int r = 0; r < size; r++)
            sum += current(r, 0, ends[e]);
        if (shared[ends[e]] != current(root, 0, ends[e]) || sums[ends[e]] != sum)
            bench_die("step %llu: rank %d has a wrong broadcast or sum at %d",
                      (unsigned long long)step_number, rank, ends[e]);
    }
    IN_CALL(BARRIER, MPI_Barrier(MPI_COMM_WORLD));
    step_number++;
}

int main(int argc, char **argv)
{
    static PassTimes times;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long bytes = argc > 1 ? bench_bytes(argv[1]) : 24576;
    long steps = argc > 2 ? atol(argv[2]) : STEPS;
    if (argc > 3 || bytes < (long)sizeof(uint64_t) || bytes % (long)sizeof(uint64_t) || steps < 1)
        bench_die("expected the bytes of a block, a multiple of 8, and the steps of a pass");
    count = (int)(bytes / (long)sizeof(uint64_t));
    mine = allocate((size_t)size * (size_t)bytes);
    theirs = allocate((size_t)size * (size_t)bytes);
    shared = allocate((size_t)bytes);
    sums = allocate((size_t)bytes);
    for (int block = 0; block < size; block++)
        for (int at = 0; at < count; at++)
            mine[(size_t)block * (size_t)count + (size_t)at] = initial(rank, block, at);
    for (int pass = -WARM_UP_PASSES; pass < PASSES; pass++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (long i = 0; i < steps; i++)
            step();
        pass_end(&times, now() - start, pass >= 0);
        for (int block = 0; block < size; block++)
            for (int at = 0; at < count; at++)
                expect(block, at);
    }
    if (rank == 0)
        print_passes("cpmd", bytes, size, &times, names, CALLS);
    MPI_Finalize();
    return 0;
}
