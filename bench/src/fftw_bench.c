/* A driver in the manner of FFTW's mpi-bench with verification, with the calls that ma-2011 found
 * there (4.3, Tables 3 and 4): for each transform one MPI_Bcast of 14.4 MB, one MPI_Gatherv of as
 * much in all, one MPI_Scatterv of less than a KiB for each rank, and 36 MPI_Sendrecv of 16 KB on
 * each rank.
 *
 * An array of 64-bit numbers lies on the ranks in shares of whole chunks of 16,000 bytes, not all
 * alike. One transform: rank 0 scatters each rank's parameters (as many as its rank plus 40), every
 * rank computes its share from them, trades 36 of its chunks with others by MPI_Sendrecv (with
 * another distance from chunk to chunk), rank 0 gathers all shares, and broadcasts the whole.
 * Figures, each the median of 15 transforms:
 *
 *     "fftw"        milliseconds of a transform on the slowest rank
 *     "fftw mpi"    of that inside of MPI, the ranks' mean, which contains waiting for slower ranks
 *     "fftw call"   inside of one call, said by key "call"
 *     "fftw share"  the same in hundredths of the time inside of MPI
 *
 * What every number has to be follows from the transform's number: on each rank the first and last
 * number of each chunk of the whole are checked after every transform, in the first and the last
 * one all numbers (not timed). Argument: bytes of the whole (14400000). */
#include "calls.h"

enum { TRANSFORMS = 15, WARM_UP = 2, EXCHANGES = 36, CHUNK = 2000, PARAMETERS = 40, ROUNDS = 8 };
enum { BCAST, SENDRECV, SCATTERV, GATHERV, CALLS };
static const char *const names[CALLS] = {"Bcast", "Sendrecv", "Scatterv", "Gatherv"};

static int rank, size, chunks, trades;
static int *share, *start;                           /* of each rank, in chunks */
static int *numbers, *place;                         /* the same in numbers */
static int *parameter_counts, *parameter_places;
static uint64_t *whole, *local, *received, *all_parameters, *parameters;

static uint64_t hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t parameter(long transform, int of, int which)
{
    return hash(((uint64_t)transform * (uint64_t)size + (uint64_t)of) * 4096 + (uint64_t)which);
}

/* What rank `of` computes for place `at` of its chunk `chunk`. */
static uint64_t computed(uint64_t its_parameter, int chunk, int at)
{
    uint64_t x = (uint64_t)chunk * CHUNK + (uint64_t)at;
    for (int k = 0; k < ROUNDS; k++)
        x = (x ^ x >> 29) * (its_parameter | 1) + (uint64_t)k;
    return x;
}

/* Distance of a trade: its partners are this number of ranks above and below. */
static int distance(int trade)
{
    return size > 1 ? 1 + trade % (size - 1) : 0;
}

static void expect(long transform, int of, int chunk, int at)
{
    int from = chunk < trades ? (of + size - distance(chunk)) % size : of;
    uint64_t its = parameter(transform, from, chunk % parameter_counts[from]);
    uint64_t got = whole[((size_t)start[of] + (size_t)chunk) * CHUNK + (size_t)at];
    if (got != computed(its, chunk, at))
        bench_die("transform %ld: rank %d has a wrong number %d in chunk %d of rank %d", transform,
                  rank, at, chunk, of);
}

static void verify(long transform, int all)
{
    for (int of = 0; of < size; of++)
        for (int chunk = 0; chunk < share[of]; chunk++) {
            expect(transform, of, chunk, 0);
            expect(transform, of, chunk, CHUNK - 1);
            for (int at = 1; all && at < CHUNK - 1; at++)
                expect(transform, of, chunk, at);
        }
}

static void transform(long number)
{
    int own = parameter_counts[rank];
    for (int r = 0; rank == 0 && r < size; r++)
        for (int i = 0; i < parameter_counts[r]; i++)
            all_parameters[parameter_places[r] + i] = parameter(number, r, i);
    IN_CALL(SCATTERV,
            MPI_Scatterv(all_parameters, parameter_counts, parameter_places, MPI_UINT64_T,
                         parameters, own, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    for (int chunk = 0; chunk < share[rank]; chunk++)
        for (int at = 0; at < CHUNK; at++)
            local[(size_t)chunk * CHUNK + (size_t)at] =
                computed(parameters[chunk % own], chunk, at);
    for (int trade = 0; trade < trades; trade++) {
        int up = (rank + distance(trade)) % size, down = (rank + size - distance(trade)) % size;
        uint64_t *chunk = local + (size_t)trade * CHUNK;
        IN_CALL(SENDRECV, MPI_Sendrecv(chunk, CHUNK, MPI_UINT64_T, up, trade, received, CHUNK,
                                       MPI_UINT64_T, down, trade, MPI_COMM_WORLD,
                                       MPI_STATUS_IGNORE));
        memcpy(chunk, received, CHUNK * sizeof *chunk);
    }
    IN_CALL(GATHERV, MPI_Gatherv(local, numbers[rank], MPI_UINT64_T, whole, numbers, place,
                                 MPI_UINT64_T, 0, MPI_COMM_WORLD));
    IN_CALL(BCAST, MPI_Bcast(whole, chunks * CHUNK, MPI_UINT64_T, 0, MPI_COMM_WORLD));
}

static int *table(void)
{
    return allocate((size_t)size * sizeof(int));
}

/* Shares: the same for all, but that every other rank gives a chunk to the one before it. */
static void lay_out(void)
{
    share = table();
    start = table();
    numbers = table();
    place = table();
    parameter_counts = table();
    parameter_places = table();
    trades = EXCHANGES;
    for (int r = 0; r < size; r++) {
        share[r] = chunks / size + (r < chunks % size);
        share[r] += r % 2 ? -1 : r + 1 < size;
        start[r] = r ? start[r - 1] + share[r - 1] : 0;
        numbers[r] = share[r] * CHUNK;
        place[r] = start[r] * CHUNK;
        parameter_counts[r] = PARAMETERS + r;
        parameter_places[r] = r ? parameter_places[r - 1] + parameter_counts[r - 1] : 0;
        trades = share[r] < trades ? share[r] : trades;
    }
    if (share[size - 1] < 1)
        bench_die("%d chunks are too few for %d ranks", chunks, size);
    local = allocate((size_t)share[rank] * CHUNK * sizeof *local);
    whole = allocate((size_t)chunks * CHUNK * sizeof *whole);
    received = allocate(CHUNK * sizeof *received);
    parameters = allocate((size_t)parameter_counts[rank] * sizeof *parameters);
    size_t most = (size_t)parameter_places[size - 1] + (size_t)parameter_counts[size - 1];
    all_parameters = allocate(most * sizeof *all_parameters);
}

int main(int argc, char **argv)
{
    static PassTimes times;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long bytes = argc > 1 ? bench_bytes(argv[1]) : 14400000, chunk = CHUNK * sizeof(uint64_t);
    if (argc > 2 || bytes < chunk || bytes % chunk)
        bench_die("expected the bytes of the whole, a multiple of %ld", chunk);
    chunks = (int)(bytes / chunk);
    lay_out();
    for (int number = 0; number < WARM_UP + TRANSFORMS; number++) {
        memset(whole, 0, (size_t)bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = now();
        transform(number);
        pass_end(&times, now() - begin, number >= WARM_UP);
        verify(number, number == 0 || number == WARM_UP + TRANSFORMS - 1);
    }
    if (rank == 0)
        print_passes("fftw", bytes, size, &times, names, CALLS);
    MPI_Finalize();
    return 0;
}
