/* Integer sort: a kernel of our own in the manner of NAS IS (chai-2009, 4.3.1 and 6.4 use IS).
 *
 * N random keys below K lie evenly on all ranks. One iteration ranks them by a distributed bucket
 * sort: count the local keys of each of 1,024 buckets (ranges of keys); MPI_Allreduce of the
 * counts; give each rank a run of buckets with about N / ranks keys; gather the local keys of each
 * bucket; MPI_Alltoall of how many go where; MPI_Alltoallv of the keys; count the keys received and
 * form every key value's rank by prefix sums. "integer sort S", "M", "L" are milliseconds of an
 * iteration on the slowest rank from a barrier on, the median of the iterations; "mpi_ms" is the
 * time inside of MPI calls, the ranks' mean, which contains waiting for slower ranks. Keys are
 * means of four uniform numbers, as in NAS IS, so that buckets are not alike; they depend only on
 * N, not on the number of ranks.
 *
 *     S    2^16 keys below 2^11     61 iterations
 *     M    2^20 keys below 2^16     31
 *     L    2^23 keys below 2^19      9
 *
 * Each iteration is verified in full (not timed): every key is in its rank's range and in order by
 * its computed rank, ranges ascend with the ranks, no key is lost and the multiset of keys is the
 * original one (sum of a hash of all keys). Two keys change from iteration to iteration. Arguments:
 * any of S, M, L (default all). With `--iterations N` there are N iterations after one warm-up, and
 * each is a region of interest (MPI_Pcontrol(1), then 0), for a simulator. */
#include "compute.h"

enum { BUCKET_BITS = 10, BUCKETS = 1 << BUCKET_BITS, MOST_ITERATIONS = 64 };
static const struct shape {
    const char *name;
    int keys_bits, value_bits, iterations;
} shapes[] = {{"S", 16, 11, 61}, {"M", 20, 16, 31}, {"L", 23, 19, 9}};

static int rank, size;
static int asked; /* number of iterations, if the user has named one */
static double in_mpi; /* seconds of this rank inside of MPI calls of this iteration */

#define IN_MPI(call)                    \
    do {                                \
        double in_mpi_start = now();    \
        call;                           \
        in_mpi += now() - in_mpi_start; \
    } while (0)

struct sorter {
    long total, local;         /* keys of all ranks, of this one */
    int value_bits;            /* keys are below 2^value_bits */
    uint32_t *keys, *packed;   /* this rank's keys: as they are, and bucket by bucket */
    uint32_t *received;        /* keys of this rank's buckets */
    long received_room, count; /* room, number */
    uint32_t *places;          /* for each value from `low` on: keys received below it */
    uint32_t low, high;        /* this rank's values: low to high - 1 */
    int *send_counts, *send_at, *receive_counts, *receive_at;
};

static uint64_t hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint32_t random_key(uint64_t number, int value_bits)
{
    uint64_t bits = hash(number), sum = 0;
    for (int i = 0; i < 4; i++)
        sum += bits >> 16 * i & 0xffff;
    return (uint32_t)(sum << value_bits >> 18); /* sum is below 2^18 */
}

/* One iteration; the function is the benchmark. */
static void sort(struct sorter *s)
{
    static int counts[BUCKETS], sums[BUCKETS], at[BUCKETS];
    int shift = s->value_bits - BUCKET_BITS;
    memset(counts, 0, sizeof counts);
    for (long i = 0; i < s->local; i++)
        counts[s->keys[i] >> shift]++;
    IN_MPI(MPI_Allreduce(counts, sums, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD));

    /* Bucket b belongs to the rank in whose even share of all keys its first key falls. */
    long before = 0;
    int here = 0;
    s->low = s->high = 0;
    memset(s->send_counts, 0, (size_t)size * sizeof(int));
    for (int b = 0, owner = 0; b < BUCKETS; before += sums[b], b++) {
        while (owner < size - 1 && before >= s->total * (owner + 1) / size)
            owner++;
        at[b] = here;
        here += counts[b];
        s->send_counts[owner] += counts[b];
        if (owner < rank)
            s->low = (uint32_t)(b + 1) << shift;
        if (owner <= rank)
            s->high = (uint32_t)(b + 1) << shift;
    }
    for (long i = 0; i < s->local; i++)
        s->packed[at[s->keys[i] >> shift]++] = s->keys[i];

    IN_MPI(MPI_Alltoall(s->send_counts, 1, MPI_INT, s->receive_counts, 1, MPI_INT, MPI_COMM_WORLD));
    int sent = 0, received = 0;
    for (int r = 0; r < size; r++) {
        s->send_at[r] = sent;
        sent += s->send_counts[r];
        s->receive_at[r] = received;
        received += s->receive_counts[r];
    }
    s->count = received;
    if (received > s->received_room) { /* only in the warm-up, or if a changed key moves a border */
        free(s->received);
        s->received_room = received + received / 8;
        s->received = allocate((size_t)s->received_room * sizeof *s->received);
    }
    IN_MPI(MPI_Alltoallv(s->packed, s->send_counts, s->send_at, MPI_UINT32_T, s->received,
                         s->receive_counts, s->receive_at, MPI_UINT32_T, MPI_COMM_WORLD));

    size_t values = s->high - s->low;
    memset(s->places, 0, (values + 1) * sizeof *s->places);
    uint32_t *above = s->places + 1;
    for (long i = 0; i < s->count; i++) {
        uint32_t value = s->received[i] - s->low;
        if (value >= values)
            bench_die("rank %d: key %u is not from %u to %u", rank, s->received[i], s->low,
                      s->high - 1);
        above[value]++;
    }
    for (size_t v = 1; v <= values; v++)
        s->places[v] += s->places[v - 1];
}

/* Sum of a hash over keys: equal for equal multisets. */
static uint64_t sum_of(const uint32_t *keys, long n)
{
    uint64_t sum = 0;
    for (long i = 0; i < n; i++)
        sum += hash(keys[i]);
    return sum;
}

static void verify(const struct sorter *s)
{
    uint32_t *sorted = allocate((size_t)s->count * sizeof *sorted);
    uint32_t *next = allocate((s->high - s->low + 1) * sizeof *next);
    memcpy(next, s->places, (s->high - s->low + 1) * sizeof *next);
    for (long i = 0; i < s->count; i++) {
        uint32_t key = s->received[i];
        uint32_t place = next[key - s->low]++;
        if (place >= s->places[key - s->low + 1])
            bench_die("rank %d: more keys %u than were counted", rank, key);
        sorted[place] = key;
    }
    if (s->places[s->high - s->low] != (uint32_t)s->count)
        bench_die("rank %d: counted %u of %ld keys", rank, s->places[s->high - s->low], s->count);
    for (long i = 1; i < s->count; i++)
        if (sorted[i - 1] > sorted[i])
            bench_die("rank %d: key %u at %ld comes after %u", rank, sorted[i], i, sorted[i - 1]);
    uint64_t highest = s->count ? sorted[s->count - 1] : 0, below = 0;
    MPI_Exscan(&highest, &below, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (rank > 0 && s->count && below > sorted[0])
        bench_die("rank %d: its least key %u is below key %llu of an earlier rank", rank, sorted[0],
                  (unsigned long long)below);
    uint64_t sums[3] = {(uint64_t)s->count, sum_of(s->keys, s->local), sum_of(sorted, s->count)};
    MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (sums[0] != (uint64_t)s->total || sums[1] != sums[2])
        bench_die("%llu of %ld keys came out%s", (unsigned long long)sums[0], s->total,
                  sums[1] != sums[2] ? ", and they are not those that went in" : "");
    free(next);
    free(sorted);
}

static void measure(const struct shape *shape)
{
    struct sorter s = {.total = 1L << shape->keys_bits, .value_bits = shape->value_bits};
    long first = s.total * rank / size;
    double ms[MOST_ITERATIONS], mpi_ms[MOST_ITERATIONS];
    size_t counts = (size_t)size * sizeof(int);
    s.local = s.total * (rank + 1) / size - first;
    s.keys = allocate((size_t)s.local * sizeof *s.keys);
    s.packed = allocate((size_t)s.local * sizeof *s.packed);
    s.places = allocate((((size_t)1 << s.value_bits) + 1) * sizeof *s.places);
    s.send_counts = allocate(counts);
    s.send_at = allocate(counts);
    s.receive_counts = allocate(counts);
    s.receive_at = allocate(counts);
    for (long i = 0; i < s.local; i++)
        s.keys[i] = random_key((uint64_t)(first + i), s.value_bits);
    int iterations = asked ? asked : shape->iterations;
    for (int i = asked ? -1 : -2; i < iterations; i++) {
        s.keys[(i + 2) % s.local] = (uint32_t)(i + 2);
        s.keys[s.local / 2 + (i + 2) % (s.local / 2)] =
            ((uint32_t)1 << s.value_bits) - 3 - (uint32_t)i;
        in_mpi = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        if (asked && i >= 0)
            MPI_Pcontrol(1);
        double time = now(), slowest, sum;
        sort(&s);
        time = now() - time;
        if (asked)
            MPI_Pcontrol(0);
        verify(&s);
        MPI_Reduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(&in_mpi, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (i >= 0 && rank == 0) {
            ms[i] = slowest * 1e3;
            mpi_ms[i] = sum / size * 1e3;
        }
    }
    if (rank == 0) {
        char name[64], extra[64];
        snprintf(name, sizeof name, "integer sort %s", shape->name);
        snprintf(extra, sizeof extra, ", \"mpi_ms\": %.6g", median(mpi_ms, iterations));
        figure(name, s.total * (long)sizeof *s.keys, size, ms, iterations, "ms", iterations, extra);
    }
    void *all[] = {s.keys,        s.packed,  s.received,       s.places,
                   s.send_counts, s.send_at, s.receive_counts, s.receive_at};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int main(int argc, char **argv)
{
    const size_t n = sizeof shapes / sizeof *shapes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    asked = (int)bench_option_bytes(&argc, argv, "--iterations", 0);
    if (asked > MOST_ITERATIONS)
        bench_die("%d iterations are more than %d", asked, MOST_ITERATIONS);
    if (size > BUCKETS)
        bench_die("%d ranks are more than %d buckets", size, BUCKETS);
    for (int i = 1; i < argc; i++) {
        size_t which = 0;
        while (which < n && strcmp(argv[i], shapes[which].name))
            which++;
        if (which == n)
            bench_die("unknown size '%s': known are S, M, L", argv[i]);
        measure(&shapes[which]);
    }
    for (size_t i = 0; i < n && argc == 1; i++)
        measure(&shapes[i]);
    MPI_Finalize();
    return 0;
}
