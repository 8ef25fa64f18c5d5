/* Collectives on intercommunicators: every operation, blocking and non-blocking, every root, sides
 * of different sizes, blocks of different lengths, short and long, an operator that does not
 * commute; several outstanding at once; persistent ones.
 *
 *     inter_coll [LONG]     LONG: number of elements of the long vectors */
#include "test.h"

/* What a process is in the intercommunicator. */
typedef struct {
    int color, me, local, remote;
    MPI_Comm intra, inter;
} Side;

/* The world cut below rank `bound`, or by parity if that is 0. */
static Side make(int bound)
{
    Side s;
    int leader;
    s.color = bound ? test_rank >= bound : test_rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, s.color, 0, &s.intra);
    if (bound)
        leader = s.color ? 0 : bound;
    else
        leader = !s.color;
    MPI_Intercomm_create(s.intra, 0, MPI_COMM_WORLD, leader, 4, &s.inter);
    MPI_Comm_rank(s.inter, &s.me);
    MPI_Comm_size(s.inter, &s.local);
    MPI_Comm_remote_size(s.inter, &s.remote);
    return s;
}

/* Element i of what a process contributes; a root's blocks have `to`. */
static long long value(int color, int rank, int to, long i)
{
    return ((color * 64LL + rank) * 64 + to) * 1000000 + i;
}

static void fill(long long *v, long n, int color, int rank, int to)
{
    for (long i = 0; i < n; i++)
        v[i] = value(color, rank, to, i);
}

static void expect(const long long *v, long n, int color, int rank, int to, const char *what)
{
    for (long i = 0; i < n; i++)
        if (v[i] != value(color, rank, to, i)) {
            CHECK(0, "%s: element %ld of %ld from color %d rank %d to %d is %lld", what, i, n, color,
                  rank, to, v[i]);
            return;
        }
}

static int same(const long long *v, long n, long long x)
{
    for (long i = 0; i < n; i++)
        if (v[i] != x)
            return 0;
    return 1;
}

static void blank(long long *v, long n)
{
    for (long i = 0; i < n; i++)
        v[i] = -1;
}

/* Blocking, or started and waited for. */
static int nonblocking;
static MPI_Request request;
#define DO(name, iname, ...)                                                                       \
    do {                                                                                           \
        if (nonblocking) {                                                                         \
            MPI_##iname(__VA_ARGS__, &request);                                                    \
            MPI_Wait(&request, MPI_STATUS_IGNORE);                                                 \
        } else {                                                                                   \
            MPI_##name(__VA_ARGS__);                                                               \
        }                                                                                          \
    } while (0)

/* The root argument of this process, when the root is `rank` of `color`. */
static int root_of(const Side *s, int color, int rank)
{
    if (s->color != color)
        return rank;
    return s->me == rank ? MPI_ROOT : MPI_PROC_NULL;
}

static int size_of(const Side *s, int color)
{
    return s->color == color ? s->local : s->remote;
}

static void rooted(const Side *s, int n)
{
    int most = s->local > s->remote ? s->local : s->remote;
    long long *a = test_alloc((size_t)n * most * sizeof *a), *b = test_alloc((size_t)n * most * sizeof *b);
    for (int color = 0; color < 2; color++)
        for (int rank = 0; rank < size_of(s, color); rank++) {
            int root = root_of(s, color, rank), from = 1 - color;

            if (root == MPI_ROOT)
                fill(a, n, color, rank, 0);
            else
                blank(a, n);
            DO(Bcast, Ibcast, a, n, MPI_LONG_LONG, root, s->inter);
            if (root == MPI_PROC_NULL)
                CHECK(same(a, n, -1), "bcast wrote beside the root");
            else
                expect(a, n, color, rank, 0, "bcast");

            fill(a, n, s->color, s->me, 0);
            blank(b, (long)n * most);
            DO(Gather, Igather, a, n, MPI_LONG_LONG, b, n, MPI_LONG_LONG, root, s->inter);
            if (root == MPI_ROOT)
                for (int i = 0; i < s->remote; i++)
                    expect(b + (long)n * i, n, from, i, 0, "gather");
            else
                CHECK(same(b, (long)n * most, -1), "gather wrote away from the root");

            for (int i = 0; i < s->remote; i++)
                fill(a + (long)n * i, n, s->color, s->me, i);
            blank(b, n);
            DO(Scatter, Iscatter, a, n, MPI_LONG_LONG, b, n, MPI_LONG_LONG, root, s->inter);
            if (root >= 0)
                expect(b, n, color, rank, s->me, "scatter");
            else
                CHECK(same(b, n, -1), "scatter wrote in the root's group");

            fill(a, n, s->color, s->me, 0);
            blank(b, n);
            DO(Reduce, Ireduce, a, b, n, MPI_LONG_LONG, MPI_SUM, root, s->inter);
            if (root == MPI_ROOT)
                for (long i = 0; i < n; i++) {
                    long long sum = 0;
                    for (int r = 0; r < s->remote; r++)
                        sum += value(from, r, 0, i);
                    CHECK(b[i] == sum, "reduce: element %ld is %lld, expected %lld", i, b[i], sum);
                }
            else
                CHECK(same(b, n, -1), "reduce wrote away from the root");
        }
    free(a);
    free(b);
}

/* Blocks of rank-dependent lengths: rank r's has n + r elements, or none if r % 3 == 2. */
static int length(int n, int rank)
{
    return rank % 3 == 2 ? 0 : n + rank;
}

static void vectors(const Side *s, int n)
{
    enum { GAP = 2 };
    int counts[64], places[64], total = GAP;
    for (int i = 0; i < s->remote; i++) {
        counts[i] = length(n, i);
        places[i] = total;
        total += counts[i] + GAP;
    }
    int mine = length(n, s->me), most = n + 64;
    long long *all = test_alloc((size_t)total * sizeof *all), *own = test_alloc((size_t)most * sizeof *own);
    for (int color = 0; color < 2; color++)
        for (int rank = 0; rank < size_of(s, color); rank++) {
            int root = root_of(s, color, rank);
            fill(own, mine, s->color, s->me, 0);
            blank(all, total);
            DO(Gatherv, Igatherv, own, mine, MPI_LONG_LONG, all, counts, places, MPI_LONG_LONG,
               root, s->inter);
            for (int i = 0; i < s->remote && root == MPI_ROOT; i++) {
                expect(all + places[i], counts[i], 1 - color, i, 0, "gatherv");
                CHECK(same(all + places[i] - GAP, GAP, -1), "gatherv wrote into a gap");
            }
            for (int i = 0; i < s->remote; i++)
                fill(all + places[i], counts[i], s->color, s->me, i);
            blank(own, most);
            DO(Scatterv, Iscatterv, all, counts, places, MPI_LONG_LONG, own, mine, MPI_LONG_LONG,
               root, s->inter);
            if (root >= 0)
                expect(own, mine, color, rank, s->me, "scatterv");
            CHECK(same(own + (root >= 0 ? mine : 0), GAP, -1), "scatterv wrote too much");
        }
    fill(own, mine, s->color, s->me, 0);
    blank(all, total);
    DO(Allgatherv, Iallgatherv, own, mine, MPI_LONG_LONG, all, counts, places, MPI_LONG_LONG,
       s->inter);
    for (int i = 0; i < s->remote; i++) {
        expect(all + places[i], counts[i], 1 - s->color, i, 0, "allgatherv");
        CHECK(same(all + places[i] - GAP, GAP, -1), "allgatherv wrote into a gap");
    }
    free(all);
    free(own);

    /* from rank a of color 0 to rank b of color 1 go length(n, a + b) elements, and back twice that
     */
    int out[64], in[64], out_at[64], in_at[64], to = 0, from = 0;
    MPI_Datatype types[64];
    for (int i = 0; i < s->remote; i++) {
        int one = length(n, s->me + i);
        out[i] = one * (1 + s->color);
        in[i] = one * (2 - s->color);
        out_at[i] = to;
        in_at[i] = from;
        to += out[i];
        from += in[i];
        types[i] = MPI_LONG_LONG;
    }
    long long *a = test_alloc((size_t)to * sizeof *a), *b = test_alloc((size_t)from * sizeof *b);
    for (int i = 0; i < s->remote; i++)
        fill(a + out_at[i], out[i], s->color, s->me, i);
    blank(b, from);
    DO(Alltoallv, Ialltoallv, a, out, out_at, MPI_LONG_LONG, b, in, in_at, MPI_LONG_LONG, s->inter);
    for (int i = 0; i < s->remote; i++)
        expect(b + in_at[i], in[i], 1 - s->color, i, s->me, "alltoallv");
    for (int i = 0; i < s->remote; i++) {
        out_at[i] *= (int)sizeof *a;
        in_at[i] *= (int)sizeof *b;
    }
    blank(b, from);
    DO(Alltoallw, Ialltoallw, a, out, out_at, types, b, in, in_at, types, s->inter);
    for (int i = 0; i < s->remote; i++)
        expect(b + in_at[i] / (int)sizeof *b, in[i], 1 - s->color, i, s->me, "alltoallw");
    free(a);
    free(b);
}

static void symmetric(const Side *s, int n)
{
    /* the groups may send different amounts: color 1's blocks are longer by one */
    int mine = n + s->color, theirs = n + !s->color;
    long long *a = test_alloc((size_t)mine * s->remote * sizeof *a);
    long long *b = test_alloc((size_t)theirs * s->remote * sizeof *b);
    DO(Barrier, Ibarrier, s->inter);
    fill(a, mine, s->color, s->me, 0);
    blank(b, (long)theirs * s->remote);
    DO(Allgather, Iallgather, a, mine, MPI_LONG_LONG, b, theirs, MPI_LONG_LONG, s->inter);
    for (int i = 0; i < s->remote; i++)
        expect(b + (long)theirs * i, theirs, 1 - s->color, i, 0, "allgather");
    for (int i = 0; i < s->remote; i++)
        fill(a + (long)mine * i, mine, s->color, s->me, i);
    blank(b, (long)theirs * s->remote);
    DO(Alltoall, Ialltoall, a, mine, MPI_LONG_LONG, b, theirs, MPI_LONG_LONG, s->inter);
    for (int i = 0; i < s->remote; i++)
        expect(b + (long)theirs * i, theirs, 1 - s->color, i, s->me, "alltoall");
    free(a);
    free(b);
}

/* x -> a x + b after one another: associative, does not commute. Pairs of 32-bit numbers. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    uint32_t *x = in, *y = inout;
    (void)type;
    for (int i = 0; i < *len; i++) {
        uint32_t a = x[2 * i] * y[2 * i], b = x[2 * i] * y[2 * i + 1] + x[2 * i + 1];
        y[2 * i] = a;
        y[2 * i + 1] = b;
    }
}

static void operand(uint32_t *v, long n, int color, int rank)
{
    for (long i = 0; i < n; i++) {
        v[2 * i] = 2u * (uint32_t)(rank + i) + 3;
        v[2 * i + 1] = (uint32_t)(100 * color + 7 * rank + i);
    }
}

static void result(uint32_t *v, long n, int color, int size)
{
    uint32_t *left = test_alloc((size_t)n * 8);
    int len = (int)n;
    operand(v, n, color, size - 1);
    for (int rank = size - 2; rank >= 0; rank--) {
        operand(left, n, color, rank);
        compose(left, v, &len, NULL);
    }
    free(left);
}

static int equal(const uint32_t *a, const uint32_t *b, long n)
{
    return memcmp(a, b, (size_t)n * 8) == 0;
}

static void reductions(const Side *s, int n)
{
    MPI_Op op;
    MPI_Datatype pair;
    MPI_Op_create(compose, 0, &op);
    MPI_Type_contiguous(2, MPI_UINT32_T, &pair);
    MPI_Type_commit(&pair);

    int total = n * s->local * s->remote; /* both sides can share it out */
    size_t bytes = (size_t)(total + 1) * 8;
    uint32_t *a = test_alloc(bytes), *b = test_alloc(bytes), *want = test_alloc(bytes);
    operand(a, total, s->color, s->me);
    result(want, total, 1 - s->color, s->remote);

    memset(b, 0, bytes);
    DO(Allreduce, Iallreduce, a, b, n, pair, op, s->inter);
    CHECK(equal(b, want, n), "allreduce of %d", n);

    int root = root_of(s, 0, 0);
    memset(b, 0, bytes);
    DO(Reduce, Ireduce, a, b, n, pair, op, root, s->inter);
    if (root == MPI_ROOT)
        CHECK(equal(b, want, n), "reduce of %d in order", n);

    memset(b, 0, bytes);
    DO(Reduce_scatter_block, Ireduce_scatter_block, a, b, n * s->remote, pair, op, s->inter);
    CHECK(equal(b, want + 2L * n * s->remote * s->me, (long)n * s->remote),
          "reduce_scatter_block of %d", total);

    /* unequal blocks, some empty: the last rank takes what is left */
    int counts[64], first = 0, left = total;
    for (int i = 0; i < s->local; i++) {
        counts[i] = i == s->local - 1 ? left : i % 2 ? 0 : left / 2;
        if (i < s->me)
            first += counts[i];
        left -= counts[i];
    }
    memset(b, 0, bytes);
    DO(Reduce_scatter, Ireduce_scatter, a, b, counts, pair, op, s->inter);
    CHECK(equal(b, want + 2L * first, counts[s->me]), "reduce_scatter of %d", total);
    CHECK(b[2L * counts[s->me]] == 0, "reduce_scatter wrote too much");

    double x = 1 + s->me, y = 0;
    DO(Allreduce, Iallreduce, &x, &y, 1, MPI_DOUBLE, MPI_MAX, s->inter);
    CHECK(y == s->remote, "the other group's maximum is %g", y);
    free(a);
    free(b);
    free(want);
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
}

/* Several at once on one intercommunicator, beside messages between the groups. */
static void outstanding(const Side *s)
{
    enum { N = 20 };
    MPI_Request r[3 * N + 4];
    long long in[N], sums[N], boxes[N], zero = 0;
    int n = 0;
    for (int i = 0; i < N; i++) {
        in[i] = value(s->color, s->me, i, 0);
        boxes[i] = s->color == i % 2 && s->me == 0 ? 1000 + i : -1;
    }
    if (s->me < s->remote) {
        MPI_Irecv(&zero, 1, MPI_LONG_LONG, s->me, 0, s->inter, &r[n++]);
        MPI_Isend(&in[0], 1, MPI_LONG_LONG, s->me, 0, s->inter, &r[n++]);
    }
    for (int i = 0; i < N; i++) {
        MPI_Iallreduce(&in[i], &sums[i], 1, MPI_LONG_LONG, MPI_SUM, s->inter, &r[n++]);
        MPI_Ibcast(&boxes[i], 1, MPI_LONG_LONG, root_of(s, i % 2, 0), s->inter, &r[n++]);
        if (i % 4 == 3)
            MPI_Ibarrier(s->inter, &r[n++]);
    }
    /* one group waits for the last one first, the other for whatever comes */
    for (int i = n - 1; i >= 0; i--) {
        int which = i;
        if (s->color)
            MPI_Wait(&r[i], MPI_STATUS_IGNORE);
        else
            MPI_Waitany(n, r, &which, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < N; i++) {
        long long sum = 0;
        for (int k = 0; k < s->remote; k++)
            sum += value(1 - s->color, k, i, 0);
        CHECK(sums[i] == sum, "sum %d is %lld, expected %lld", i, sums[i], sum);
        if (s->color != i % 2)
            CHECK(boxes[i] == 1000 + i, "box %d is %lld", i, boxes[i]);
    }
    if (s->me < s->remote)
        CHECK(zero == value(1 - s->color, s->me, 0, 0), "message is %lld", zero);
}

/* Persistent forms, started several times, all at once. */
static void persistent(const Side *s)
{
    long long in = 0, sum = 0, box = 0;
    int root = root_of(s, 1, 0);
    MPI_Request r[3];
    MPI_Allreduce_init(&in, &sum, 1, MPI_LONG_LONG, MPI_SUM, s->inter, MPI_INFO_NULL, &r[0]);
    MPI_Bcast_init(&box, 1, MPI_LONG_LONG, root, s->inter, MPI_INFO_NULL, &r[1]);
    MPI_Barrier_init(s->inter, MPI_INFO_NULL, &r[2]);
    for (int turn = 0; turn < 5; turn++) {
        long long expected = 0;
        in = value(s->color, s->me, turn, 0);
        box = root == MPI_ROOT ? 70 + turn : -1;
        MPI_Startall(3, r);
        MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < s->remote; i++)
            expected += value(1 - s->color, i, turn, 0);
        CHECK(sum == expected, "turn %d: sum %lld, expected %lld", turn, sum, expected);
        CHECK_INT(box, root == MPI_PROC_NULL ? -1 : 70 + turn, "box");
    }
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&r[i]);
}

static void all(Side s, int n)
{
    for (nonblocking = 0; nonblocking < 2; nonblocking++) {
        rooted(&s, n);
        vectors(&s, n);
        symmetric(&s, n);
        reductions(&s, n);
    }
    if (n == 1) {
        outstanding(&s);
        persistent(&s);
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    int lengths[] = {0, 1, 3, 100, argc > 1 ? atoi(argv[1]) : 2000};
    for (int bound = 0; bound < test_size; bound++) {
        Side s = make(bound);
        for (int i = 0; i < 5; i++)
            all(s, lengths[i]);
        MPI_Comm_free(&s.inter);
        MPI_Comm_free(&s.intra);
    }
    return test_finish();
}
