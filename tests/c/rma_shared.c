/* MPI_Win_allocate_shared (MPI 5.0, 12.2.3): segments one after the other or apart, of different
 * lengths and of none, found by MPI_Win_shared_query and used by plain loads and stores between
 * MPI_Win_sync and barriers, beside one-sided operations on the same memory.
 *
 * argv: rounds, seed. */
#include "rma.h"

enum { MOST = 3000 };

typedef struct {
    MPI_Win win;
    MPI_Comm comm;
    int apart, unit, rank, size;
    int *lengths;          /* of all segments, in elements */
    unsigned char **bases; /* of all segments, where this rank sees them */
} Shared;

static void query(Shared *s)
{
    unsigned char *end = NULL;
    for (int r = 0; r < s->size; r++) {
        MPI_Aint bytes = -1;
        int unit = -1;
        MPI_Win_shared_query(s->win, r, &bytes, &unit, &s->bases[r]);
        CHECK_INT(bytes, (MPI_Aint)s->lengths[r] * s->unit, "bytes of a rank's segment");
        if (bytes == 0) /* the unit then: what was given, but MPICH 5.0.2 says 0 */
            continue;
        CHECK_INT(unit, s->unit, "displacement unit of a rank's segment");
        CHECK(s->bases[r], "the segment of rank %d has no address", r);
        CHECK(
            s->apart || !end || s->bases[r] == end,
            "the segment of rank %d is at %p and not right after that before it, which ends at %p",
            r, (void *)s->bases[r], (void *)end);
        end = s->bases[r] + bytes;
    }
}

/* MPI_PROC_NULL stands for the lowest rank that asked for any bytes. */
static void query_first(const Shared *s)
{
    MPI_Aint bytes = -1;
    int unit = -1, first = 0;
    unsigned char *base = NULL;
    MPI_Win_shared_query(s->win, MPI_PROC_NULL, &bytes, &unit, &base);
    while (first < s->size && s->lengths[first] == 0)
        first++;
    if (first == s->size) {
        CHECK_INT(bytes, 0, "bytes of the first segment of a window without any");
        return;
    }
    CHECK_INT(bytes, (MPI_Aint)s->lengths[first] * s->unit, "bytes of the first segment");
    CHECK_INT(unit, s->unit, "displacement unit of the first segment");
    CHECK(base == s->bases[first], "the first segment is at %p, that of rank %d at %p",
          (void *)base, first, (void *)s->bases[first]);
}

static void sync_barrier(const Shared *s)
{
    MPI_Win_sync(s->win);
    MPI_Barrier(s->comm);
    MPI_Win_sync(s->win);
}

/* Each rank writes the segment of one other, all read all. */
static void load_and_store(const Shared *s, uint64_t seed)
{
    int to = (s->rank + 1) % s->size;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, s->win);
    test_fill(s->bases[to], (size_t)(s->lengths[to] * s->unit), seed + (uint64_t)to);
    sync_barrier(s);
    for (int r = 0; r < s->size; r++) {
        size_t bytes = (size_t)(s->lengths[r] * s->unit);
        size_t differs = test_verify(s->bases[r], bytes, seed + (uint64_t)r);
        CHECK(differs == bytes, "byte %zu of %zu of the segment of rank %d is 0x%02x", differs,
              bytes, r, s->bases[r][differs]);
    }
    sync_barrier(s);
    MPI_Win_unlock_all(s->win);
}

/* What is put is loaded, what was stored is got. */
static void put_and_get(const Shared *s, uint64_t seed)
{
    int to = (s->rank + s->size - 1) % s->size, elements = s->lengths[to];
    size_t bytes = (size_t)(elements * s->unit), own = (size_t)(s->lengths[s->rank] * s->unit);
    unsigned char *out = test_alloc(bytes), *in = test_alloc(bytes);
    test_fill(out, bytes, seed + (uint64_t)to);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, s->win);
    MPI_Put(out, (int)bytes, MPI_BYTE, to, 0, (int)bytes, MPI_BYTE, s->win);
    MPI_Win_fence(0, s->win);
    CHECK(test_verify(s->bases[s->rank], own, seed + (uint64_t)s->rank) == own,
          "what was put is not in the segment of %zu bytes", own);
    test_fill(s->bases[s->rank], own, seed + 100 + (uint64_t)s->rank);
    MPI_Win_fence(0, s->win);
    MPI_Get(in, (int)bytes, MPI_BYTE, to, 0, (int)bytes, MPI_BYTE, s->win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, s->win);
    CHECK(test_verify(in, bytes, seed + 100 + (uint64_t)to) == bytes,
          "what rank %d stored in its segment of %zu bytes is not what was got", to, bytes);
    free(out);
    free(in);
}

/* A counter in the first segment, incremented by atomic operations of MPI, and seen by loads. */
static void count(const Shared *s)
{
    enum { TIMES = 50 };
    int first = 0, one = 1, old;
    while (first < s->size && s->lengths[first] * s->unit < (int)sizeof(int))
        first++;
    if (first == s->size)
        return;
    int *counter = (int *)(void *)s->bases[first];
    MPI_Win_lock_all(0, s->win);
    if (s->rank == first)
        *counter = 0;
    sync_barrier(s);
    for (int i = 0; i < TIMES; i++)
        MPI_Fetch_and_op(&one, &old, MPI_INT, first, 0, MPI_SUM, s->win);
    MPI_Win_flush_all(s->win);
    sync_barrier(s);
    CHECK_INT(*counter, TIMES * s->size, "counter in shared memory");
    sync_barrier(s);
    MPI_Win_unlock_all(s->win);
}

static void attributes(const Shared *s)
{
    void *base = NULL;
    int *flavor = NULL, *model = NULL, *unit = NULL, flag = 0;
    MPI_Aint *bytes = NULL;
    MPI_Win_get_attr(s->win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_SHARED, "the flavor is not MPI_WIN_FLAVOR_SHARED");
    MPI_Win_get_attr(s->win, MPI_WIN_MODEL, &model, &flag);
    CHECK(flag && *model == MPI_WIN_UNIFIED, "shared memory, but the model is not MPI_WIN_UNIFIED");
    MPI_Win_get_attr(s->win, MPI_WIN_SIZE, &bytes, &flag);
    CHECK(flag && *bytes == (MPI_Aint)s->lengths[s->rank] * s->unit, "MPI_WIN_SIZE is wrong");
    MPI_Win_get_attr(s->win, MPI_WIN_DISP_UNIT, &unit, &flag);
    CHECK(flag && *unit == s->unit, "MPI_WIN_DISP_UNIT is wrong");
    MPI_Win_get_attr(s->win, MPI_WIN_BASE, &base, &flag);
    CHECK(flag && (*bytes == 0 || base == s->bases[s->rank]), "MPI_WIN_BASE is wrong");
}

static void one_round(MPI_Comm comm, uint64_t *random)
{
    static const int units[] = {1, 4, 8, 64};
    Shared s = {.comm = comm, .apart = rma_below(random, 2), .unit = units[rma_below(random, 4)]};
    int all_empty = rma_below(random, 8) == 0;
    void *base = NULL;
    MPI_Comm_rank(comm, &s.rank);
    MPI_Comm_size(comm, &s.size);
    s.lengths = test_alloc((size_t)s.size * sizeof *s.lengths);
    s.bases = test_alloc((size_t)s.size * sizeof *s.bases);
    for (int r = 0; r < s.size; r++) {
        /* Multiples of 64 bytes keep a counter in each segment aligned. */
        int bytes = all_empty || rma_below(random, 4) == 0 ? 0 : 64 * rma_below(random, MOST / 64);
        s.lengths[r] = rma_below(random, 50) ? bytes / s.unit : 64 * MOST / s.unit;
    }
    MPI_Info info = rma_info("alloc_shared_noncontig", s.apart ? "true" : "false");
    MPI_Win_allocate_shared((MPI_Aint)s.lengths[s.rank] * s.unit, s.unit, info, comm, &base,
                            &s.win);
    MPI_Info_free(&info);
    query(&s);
    CHECK(s.lengths[s.rank] == 0 || base == s.bases[s.rank], "the segment is at %p, found at %p",
          base, (void *)s.bases[s.rank]);
    CHECK((uintptr_t)base % 8 == 0, "the segment at %p is not aligned", base);
    query_first(&s);
    attributes(&s);
    load_and_store(&s, 7 * *random);
    put_and_get(&s, 11 * *random);
    count(&s);
    MPI_Win_free(&s.win);
    free(s.lengths);
    free(s.bases);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    uint64_t random = rma_seed(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, 8);
    MPI_Comm node;
    test_init(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    for (int i = 0; i < rounds; i++)
        one_round(i % 5 == 4 ? MPI_COMM_SELF : node, &random);
    MPI_Comm_free(&node);
    return test_finish();
}
