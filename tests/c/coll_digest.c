/* Reductions of floating numbers, whose bits depend on the order of the additions: every rank must
 * get the same bits from an allreduce, and every repetition the same bits as the first, whichever
 * rank comes late and wherever the buffers are. With `digest`, rank 0 prints what the bits of all
 * results come to, for a comparison between runs; `late` is the seed of the delays and of the
 * memory, which must not matter. Arguments: steps, late, digest. */
#include "property.h"

enum { KINDS = 6, REPEATS = 4 };

static const int reductions[KINDS] = {REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN};

typedef struct {
    int kind, n, root, complex_numbers, op;
    MPI_Comm comm;
    int rank, size, in_place;
    int *counts;
} Sums;

static unsigned own; /* delays and memory: of this rank and run */

/* Numbers of all magnitudes and both signs. */
static void put(char *at, unsigned seed, int rank, const Sums *s)
{
    size_t numbers = (size_t)s->n * (s->complex_numbers ? 2 : 1);
    unsigned state = seed + 977u * (unsigned)rank;
    for (size_t i = 0; i < numbers; i++) {
        unsigned h = coll_random(&state);
        double value = ((double)h / 4294967296.0 + 0.5) * (double)(1u << h % 24) * (h & 64 ? 1 : -1);
        if (s->op) /* products stay in range */
            value = 0.5 + (double)h / 4294967296.0;
        if (s->complex_numbers == 2) {
            float narrow = (float)value;
            memcpy(at + i * sizeof narrow, &narrow, sizeof narrow);
        } else {
            memcpy(at + i * sizeof value, &value, sizeof value);
        }
    }
}

static uint64_t digest(uint64_t d, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        d = (d ^ p[i]) * 0x100000001b3u;
    return d;
}

static int call(const Sums *c, int form, void *send, void *recv, MPI_Request *request)
{
    static const MPI_Op ops[2] = {MPI_SUM, MPI_PROD};
    MPI_Datatype types[] = {MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX, MPI_C_FLOAT_COMPLEX}, type = types[c->complex_numbers];
    MPI_Op op = ops[c->op];
    int n = c->n;
    if (c->in_place && (c->kind != REDUCE || c->rank == c->root))
        send = MPI_IN_PLACE;
    switch (c->kind) {
    case REDUCE:
        return COLL_CALL(Reduce, Ireduce, send, recv, n, type, op, c->root);
    case ALLREDUCE:
        return COLL_CALL(Allreduce, Iallreduce, send, recv, n, type, op);
    case REDUCE_SCATTER:
        return COLL_CALL(Reduce_scatter, Ireduce_scatter, send, recv, c->counts, type, op);
    case REDUCE_SCATTER_BLOCK:
        return COLL_CALL(Reduce_scatter_block, Ireduce_scatter_block, send, recv, c->counts[0], type, op);
    case SCAN:
        return COLL_CALL(Scan, Iscan, send, recv, n, type, op);
    default:
        return COLL_CALL(Exscan, Iexscan, send, recv, n, type, op);
    }
}

/* How many numbers of the result this rank gets. */
static int results(const Sums *s)
{
    switch (s->kind) {
    case REDUCE:
        return s->rank == s->root ? s->n : 0;
    case REDUCE_SCATTER: case REDUCE_SCATTER_BLOCK:
        return s->counts[s->rank];
    case EXSCAN:
        return s->rank ? s->n : 0;
    default:
        return s->n;
    }
}

static void draw(Sums *s, unsigned seed, MPI_Comm comm)
{
    unsigned all = seed;
    s->comm = comm;
    MPI_Comm_rank(comm, &s->rank);
    MPI_Comm_size(comm, &s->size);
    s->kind = reductions[among(&all, KINDS)];
    s->root = among(&all, s->size);
    s->in_place = among(&all, 3) == 0;
    s->complex_numbers = among(&all, 4) < 2 ? 0 : 1 + among(&all, 2);
    s->op = among(&all, 4) == 0;
    s->n = 1 + (int)(draw_bytes(&all, 1 << 20) / (s->complex_numbers == 1 ? 16 : 8));
    s->counts = test_alloc((size_t)s->size * sizeof(int));
    int part = s->n / s->size, left = s->n;
    for (int i = 0; i < s->size; i++) {
        s->counts[i] = s->kind == REDUCE_SCATTER ? (i + 1 == s->size ? left : among(&all, left + 1)) : part;
        left -= s->counts[i];
    }
    if (s->kind == REDUCE_SCATTER_BLOCK)
        s->n = part * s->size;
}

/* One reduction in one form, several times; what its bits come to on this rank. */
static uint64_t repeat(const Sums *s, int form, unsigned seed)
{
    size_t bytes = (size_t)s->n * (s->complex_numbers == 1 ? 16 : 8);
    size_t result = (size_t)results(s) * (s->complex_numbers == 1 ? 16 : 8);
    uint64_t first = 0;
    Memory send = memory_take(bytes + 16, among(&own, MEMORIES)), recv = memory_take(bytes + 16, among(&own, MEMORIES));
    MPI_Request request = MPI_REQUEST_NULL;
    if (form == PERSISTENT)
        call(s, form, send.at, recv.at, &request);
    for (int i = 0; i < REPEATS; i++) {
        put((char *)send.at, seed, s->rank, s);
        put((char *)recv.at, seed, s->rank, s);
        if (among(&own, 8) == 0)
            sleep_us(among(&own, 700));
        if (form == PERSISTENT)
            MPI_Start(&request);
        else
            call(s, form, send.at, recv.at, &request);
        if (form != BLOCKING)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        uint64_t d = digest(0xcbf29ce484222325u, recv.at, result);
        first = i ? first : d;
        CHECK(d == first, "%s of %d numbers, form %d, rank %d of %d: repetition %d has other bits than the first",
              coll_names[s->kind], s->n, form, s->rank, s->size, i);
    }
    if (form == PERSISTENT)
        MPI_Request_free(&request);
    memory_give(&send);
    memory_give(&recv);
    return first;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int steps = argc > 1 ? atoi(argv[1]) : 20, print = argc > 3 && !strcmp(argv[3], "digest");
    own = (argc > 2 ? (unsigned)atoi(argv[2]) : 1u) * 7919u + (unsigned)test_rank;
    unsigned all = 5;
    uint64_t total = 0xcbf29ce484222325u, *of_ranks = test_alloc((size_t)test_size * sizeof *of_ranks);
    comms_make(11);
    for (int step = 0; step < steps; step++) {
        unsigned drawn = coll_random(&all), seed = coll_random(&all);
        MPI_Comm comm = comms[among(&all, COMMS)];
        Sums s;
        if (comm == MPI_COMM_NULL)
            continue;
        draw(&s, drawn, comm);
        seed += (unsigned)comm_first(comm);
        for (int form = BLOCKING; form <= PERSISTENT; form++) {
            uint64_t d = repeat(&s, form, seed);
            total = digest(total, &d, sizeof d);
            if (s.kind != ALLREDUCE)
                continue;
            MPI_Allgather(&d, 1, MPI_UINT64_T, of_ranks, 1, MPI_UINT64_T, comm);
            for (int i = 0; i < s.size; i++)
                CHECK(of_ranks[i] == d, "allreduce of %d numbers, form %d: ranks %d and %d have different bits", s.n,
                      form, s.rank, i);
        }
        free(s.counts);
    }
    MPI_Gather(&total, 1, MPI_UINT64_T, of_ranks, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (test_rank == 0 && print)
        printf("digest %016llx\n", (unsigned long long)digest(total, of_ranks, (size_t)test_size * sizeof *of_ranks));
    free(of_ranks);
    comms_free();
    memory_end();
    return test_finish();
}
