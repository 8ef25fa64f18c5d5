/* Derived datatypes on both sides of one-sided operations, with the place of every int written down
 * by hand; both counts' widths, request forms, no items at all, MPI_PROC_NULL, and elements of
 * mixed types, whose gaps stay untouched.
 *
 * argv: rounds, seed. */
#include "rma.h"

enum { ITEM = 6, LAYOUTS = 8, MOST = 3, INTS = 160, GAP = -7777, KINDS_OF_CALL = 8 };

typedef struct {
    const char *name;
    MPI_Datatype type;
    int extent, lead; /* in ints; `lead` of them lie before the address of the first item */
    int place[ITEM];  /* items of `resized` interleave */
} Layout;

static Layout layouts[LAYOUTS] = {
    {"contiguous", MPI_DATATYPE_NULL, 6, 0, {0, 1, 2, 3, 4, 5}},
    {"vector", MPI_DATATYPE_NULL, 8, 0, {0, 1, 3, 4, 6, 7}},
    {"indexed", MPI_DATATYPE_NULL, 9, 0, {5, 6, 7, 0, 1, 8}},
    {"struct", MPI_DATATYPE_NULL, 12, 0, {1, 2, 7, 9, 11, 10}},
    {"subarray", MPI_DATATYPE_NULL, 20, 0, {6, 7, 11, 12, 16, 17}},
    {"resized", MPI_DATATYPE_NULL, 1, 0, {0, 4, 8, 12, 16, 20}},
    {"backwards", MPI_DATATYPE_NULL, 12, 10, {0, -2, -4, -6, -8, -10}},
    {"nested", MPI_DATATYPE_NULL, 14, 0, {0, 2, 4, 8, 10, 12}},
};

static void layouts_make(void)
{
    MPI_Datatype t, u, two[2] = {MPI_INT, MPI_INT};
    const MPI_Aint size = sizeof(int), at[2] = {1 * size, 0};
    MPI_Type_contiguous(6, MPI_INT, &layouts[0].type);
    MPI_Type_vector(3, 2, 3, MPI_INT, &layouts[1].type);
    MPI_Type_indexed(3, (int[]){3, 2, 1}, (int[]){5, 0, 8}, MPI_INT, &layouts[2].type);
    MPI_Type_create_indexed_block(4, 1, (int[]){7, 9, 11, 10}, MPI_INT, &t);
    two[1] = t;
    MPI_Type_create_struct(2, (int[]){2, 1}, at, two, &u);
    MPI_Type_create_resized(u, 0, 12 * size, &layouts[3].type);
    MPI_Type_free(&u);
    MPI_Type_free(&t);
    MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){3, 2}, (int[]){1, 1}, MPI_ORDER_C, MPI_INT,
                             &layouts[4].type);
    MPI_Type_vector(6, 1, 4, MPI_INT, &t);
    MPI_Type_create_resized(t, 0, size, &layouts[5].type);
    MPI_Type_free(&t);
    MPI_Type_vector(6, 1, -2, MPI_INT, &t);
    MPI_Type_create_resized(t, -10 * size, 12 * size, &layouts[6].type);
    MPI_Type_free(&t);
    MPI_Type_vector(3, 1, 2, MPI_INT, &t);
    MPI_Type_create_hvector(2, 1, 8 * size, t, &u);
    MPI_Type_create_resized(u, 0, 14 * size, &layouts[7].type);
    MPI_Type_free(&u);
    MPI_Type_free(&t);
    for (int i = 0; i < LAYOUTS; i++)
        MPI_Type_commit(&layouts[i].type);
}

/* Where int k of the items lies, in ints from the beginning of the buffer. */
static int place(const Layout *l, int k)
{
    return l->lead + k / ITEM * l->extent + l->place[k % ITEM];
}

static int value(int rank, int round, int k)
{
    return (rank + 1) * 100000 + round * 100 + k;
}

static void blank(int *b)
{
    for (int i = 0; i < INTS; i++)
        b[i] = GAP;
}

/* Writes the items' ints to a blank buffer. */
static void lay(const Layout *l, int *b, int items, int rank, int round)
{
    blank(b);
    for (int k = 0; k < items * ITEM; k++)
        b[place(l, k)] = value(rank, round, k);
}

typedef struct {
    const Layout *origin, *result, *target;
    int items, call, many, target_rank, round;
    MPI_Aint at; /* of the target's items, in ints */
} Move;

static const char *const calls[KINDS_OF_CALL] = {"put",  "get",  "accumulate",  "get_accumulate",
                                                 "rput", "rget", "raccumulate", "rget_accumulate"};

static void move_int(const Move *m, const int *from, int *to, MPI_Win win, MPI_Request *r)
{
    int n = m->items, rank = m->target_rank;
    MPI_Datatype o = m->origin->type, u = m->result->type, t = m->target->type;
    if (m->call == 0)
        MPI_Put(from, n, o, rank, m->at, n, t, win);
    else if (m->call == 1)
        MPI_Get(to, n, u, rank, m->at, n, t, win);
    else if (m->call == 2)
        MPI_Accumulate(from, n, o, rank, m->at, n, t, MPI_SUM, win);
    else if (m->call == 3)
        MPI_Get_accumulate(from, n, o, to, n, u, rank, m->at, n, t, MPI_SUM, win);
    else if (m->call == 4)
        MPI_Rput(from, n, o, rank, m->at, n, t, win, r);
    else if (m->call == 5)
        MPI_Rget(to, n, u, rank, m->at, n, t, win, r);
    else if (m->call == 6)
        MPI_Raccumulate(from, n, o, rank, m->at, n, t, MPI_SUM, win, r);
    else
        MPI_Rget_accumulate(from, n, o, to, n, u, rank, m->at, n, t, MPI_SUM, win, r);
}

static void move_count(const Move *m, const int *from, int *to, MPI_Win win, MPI_Request *r)
{
    MPI_Count n = m->items;
    int rank = m->target_rank;
    MPI_Datatype o = m->origin->type, u = m->result->type, t = m->target->type;
    if (m->call == 0)
        MPI_Put_c(from, n, o, rank, m->at, n, t, win);
    else if (m->call == 1)
        MPI_Get_c(to, n, u, rank, m->at, n, t, win);
    else if (m->call == 2)
        MPI_Accumulate_c(from, n, o, rank, m->at, n, t, MPI_SUM, win);
    else if (m->call == 3)
        MPI_Get_accumulate_c(from, n, o, to, n, u, rank, m->at, n, t, MPI_SUM, win);
    else if (m->call == 4)
        MPI_Rput_c(from, n, o, rank, m->at, n, t, win, r);
    else if (m->call == 5)
        MPI_Rget_c(to, n, u, rank, m->at, n, t, win, r);
    else if (m->call == 6)
        MPI_Raccumulate_c(from, n, o, rank, m->at, n, t, MPI_SUM, win, r);
    else
        MPI_Rget_accumulate_c(from, n, o, to, n, u, rank, m->at, n, t, MPI_SUM, win, r);
}

static void move(const Move *m, const int *from, int *to, MPI_Win win)
{
    MPI_Request r = MPI_REQUEST_NULL;
    from += m->origin->lead;
    to += m->result->lead;
    if (m->many)
        move_count(m, from, to, win, &r);
    else
        move_int(m, from, to, win, &r);
    if (m->call >= 4)
        CHECK(r != MPI_REQUEST_NULL, "%s%s gives no request", calls[m->call], m->many ? "_c" : "");
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void same(const Move *m, const char *what, const int *got, const int *want)
{
    for (int i = 0; i < INTS; i++)
        if (got[i] != want[i]) {
            CHECK(0,
                  "round %d: %s%s of %d items, origin %s, result %s, target %s: int %d of the %s "
                  "is %d, expected %d",
                  m->round, calls[m->call], m->many ? "_c" : "", m->items, m->origin->name,
                  m->result->name, m->target->name, i, what, got[i], want[i]);
            return;
        }
}

/* Every rank to its neighbour; the RMA calls stand in an epoch of `by_fence` or of a lock. */
static void one_round(RmaWindow *w, Move m, int by_fence)
{
    int from[INTS], to[INTS], blank_to[INTS], memory[INTS];
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    int gets = m.call % 2, puts = m.call % 4 != 1, n = m.items * ITEM;
    m.target_rank = right;
    m.at = rma_disp(w, right, m.target->lead * (MPI_Aint)sizeof(int));
    lay(m.origin, from, m.items, test_rank, m.round);
    lay(m.target, memory, m.items, test_rank + test_size, m.round);
    memcpy(w->base, memory, sizeof memory);
    blank(to), blank(blank_to);
    if (by_fence) {
        MPI_Win_fence(0, w->win);
        move(&m, from, to, w->win);
        MPI_Win_fence(0, w->win);
    } else {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0,
                     w->win); /* the stores above become visible */
        MPI_Win_unlock(test_rank, w->win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w->win);
        move(&m, from, to, w->win);
        MPI_Win_unlock(right, w->win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, w->win);
    }
    for (int k = 0; k < n && gets; k++) /* the items as they were */
        blank_to[place(m.result, k)] = value(right + test_size, m.round, k);
    for (int k = 0; k < n && puts; k++) {
        int *p = &memory[place(m.target, k)];
        *p = value(left, m.round, k) + (m.call % 4 ? *p : 0);
    }
    same(&m, "result", to, blank_to);
    same(&m, "target", (const int *)w->base, memory);
    if (!by_fence)
        MPI_Win_unlock(test_rank, w->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void random_layouts(RmaKind kind, int rounds, uint64_t *random)
{
    RmaWindow w;
    rma_open(&w, kind, INTS * sizeof(int), sizeof(int), MPI_INFO_NULL);
    for (int round = 0; round < rounds; round++) {
        Move m = {0};
        int by_fence = rma_below(random, 2);
        m.round = round;
        m.origin = &layouts[rma_below(random, LAYOUTS)];
        m.target = &layouts[rma_below(random, LAYOUTS)];
        m.result = &layouts[rma_below(random, LAYOUTS)];
        m.items = rma_below(random, MOST + 1);
        m.call =
            rma_below(random, by_fence ? 4 : KINDS_OF_CALL); /* requests: passive target only */
        m.many = rma_below(random, 2);
        one_round(&w, m, by_fence);
    }
    rma_close(&w);
}

/* Operations to MPI_PROC_NULL move nothing, and their requests complete. */
static void nowhere(void)
{
    RmaWindow w;
    int from[INTS], to[INTS], want[INTS];
    rma_open(&w, RMA_ALLOCATE, INTS * sizeof(int), sizeof(int), MPI_INFO_NULL);
    blank((int *)w.base), blank(to), blank(want);
    Move m = {&layouts[1], &layouts[2], &layouts[3], 2, 0, 0, MPI_PROC_NULL, -1, 0};
    lay(m.origin, from, m.items, test_rank, 0);
    for (m.many = 0; m.many < 2; m.many++) {
        MPI_Win_fence(0, w.win);
        for (m.call = 0; m.call < 4; m.call++)
            move(&m, from, to, w.win);
        MPI_Fetch_and_op(from, to, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, w.win);
        MPI_Compare_and_swap(from, from, to, MPI_INT, MPI_PROC_NULL, 0, w.win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
        MPI_Win_lock_all(0, w.win);
        for (m.call = 4; m.call < KINDS_OF_CALL; m.call++)
            move(&m, from, to, w.win);
        MPI_Win_unlock_all(w.win);
    }
    same(&m, "result", to, want);
    same(&m, "target", (const int *)w.base, want);
    rma_close(&w);
}

typedef struct {
    char c;
    double d;
    short s[3];
    int i;
} Mixed;

enum { MIXED = 5, PACKED = 1 + 8 + 6 + 4 };

static MPI_Datatype mixed_type(const MPI_Aint at[4], MPI_Aint extent)
{
    MPI_Datatype t, u, parts[4] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT};
    MPI_Type_create_struct(4, (int[]){1, 1, 3, 1}, at, parts, &t);
    MPI_Type_create_resized(t, 0, extent, &u);
    MPI_Type_commit(&u);
    MPI_Type_free(&t);
    return u;
}

/* Elements of several types, dense at the origin and aligned at the target, and back. */
static void mixed(void)
{
    const MPI_Aint loose[4] = {offsetof(Mixed, c), offsetof(Mixed, d), offsetof(Mixed, s),
                               offsetof(Mixed, i)};
    const MPI_Aint dense[4] = {0, 1, 9, 15};
    MPI_Datatype struct_type = mixed_type(loose, sizeof(Mixed)),
                 packed_type = mixed_type(dense, PACKED);
    unsigned char packed[MIXED * PACKED], back[MIXED * PACKED], want[MIXED * sizeof(Mixed)];
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    const size_t sizes[4] = {1, 8, 6, 4};
    RmaWindow w;
    rma_open(&w, RMA_ALLOCATE, MIXED * sizeof(Mixed), 1, MPI_INFO_NULL);
    memset(w.base, 0x5a, MIXED * sizeof(Mixed));
    memset(want, 0x5a, sizeof want);
    memset(back, 0, sizeof back);
    test_fill(packed, sizeof packed, (uint64_t)left);
    for (int n = 0; n < MIXED; n++)
        for (int k = 0; k < 4; k++)
            memcpy(want + n * sizeof(Mixed) + loose[k], packed + n * PACKED + dense[k], sizes[k]);
    test_fill(packed, sizeof packed, (uint64_t)test_rank);
    MPI_Win_fence(0, w.win);
    MPI_Put(packed, MIXED, packed_type, right, 0, MIXED, struct_type, w.win);
    MPI_Win_fence(0, w.win);
    MPI_Get(back, MIXED, packed_type, right, 0, MIXED, struct_type, w.win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    CHECK(!memcmp(w.base, want, sizeof want),
          "elements of mixed types or the gaps among them differ");
    CHECK(test_verify(back, sizeof back, (uint64_t)test_rank) == sizeof back,
          "byte %zu of what was put and got as mixed types differs",
          test_verify(back, sizeof back, (uint64_t)test_rank));
    rma_close(&w);
    MPI_Type_free(&struct_type);
    MPI_Type_free(&packed_type);
}

typedef struct {
    double value;
    int rank;
} Located;

/* A pair type with a gap after its int: all ranks give every place a maximum of their own. */
static void located(void)
{
    enum { N = 7 };
    Located mine[N];
    RmaWindow w;
    rma_open(&w, RMA_ALLOCATE, N * sizeof(Located), sizeof(Located), MPI_INFO_NULL);
    memset(w.base, 0, N * sizeof(Located));
    for (int i = 0; i < N; i++)
        mine[i] = (Located){1.0 + (i + test_rank) % test_size, test_rank};
    MPI_Win_fence(0, w.win);
    for (int t = 0; t < test_size; t++)
        MPI_Accumulate(mine, N, MPI_DOUBLE_INT, t, 0, N, MPI_DOUBLE_INT, MPI_MAXLOC, w.win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    for (int i = 0; i < N; i++) {
        const Located *got = (const Located *)w.base + i;
        int best = (test_size - 1 - i % test_size + test_size) % test_size;
        CHECK(got->value == test_size && got->rank == best,
              "maximum %d is %g of rank %d, expected %d of rank %d", i, got->value, got->rank,
              test_size, best);
    }
    rma_close(&w);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    uint64_t random = rma_seed(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, 3);
    test_init(&argc, &argv);
    layouts_make();
    for (int kind = 0; kind < RMA_KINDS; kind++)
        if (kind != RMA_SHARED || rma_one_node())
            random_layouts((RmaKind)kind, rounds, &random);
    nowhere();
    mixed();
    located();
    for (int i = 0; i < LAYOUTS; i++)
        MPI_Type_free(&layouts[i].type);
    return test_finish();
}
