/* A random reduction: predefined operators on types of every size, with values for which any order
 * gives the same bits, and operators of the user's, which must be applied in the order of the
 * ranks. */
#ifndef PROPERTY_REDUCE_H
#define PROPERTY_REDUCE_H

#include "property.h"

#include <complex.h>

enum { SUM, PROD, MAX, MIN, LAND, LOR, LXOR, BAND, BOR, BXOR, MAXLOC, MINLOC, USER, PREDEFINED = USER };

enum { ARITHMETIC = 1 << SUM | 1 << PROD, ORDERING = 1 << MAX | 1 << MIN, LOGIC = 1 << LAND | 1 << LOR | 1 << LXOR,
       BITS = 1 << BAND | 1 << BOR | 1 << BXOR, PLACES_OF = 1 << MAXLOC | 1 << MINLOC, USERS = 1 << USER };

/* What is reduced: how to make a value from a hash, to fold the next rank's value into what is
 * there, and to compare. */
typedef struct {
    const char *name;
    MPI_Datatype type;
    size_t bytes;
    int ops;
    void (*put)(void *at, unsigned h, int op, int rank);
    void (*fold)(void *acc, const void *next, int op);
    int (*same)(const void *a, const void *b);
} Number;

#define SAME(N, T, EXPR)                                                                                               \
    static int same_##N(const void *pa, const void *pb)                                                                \
    {                                                                                                                  \
        T a, b;                                                                                                        \
        memcpy(&a, pa, sizeof a);                                                                                      \
        memcpy(&b, pb, sizeof b);                                                                                      \
        return EXPR;                                                                                                   \
    }

/* Integers of all values; sums and products wrap. U is as wide and has no sign. */
#define INTEGER(N, T, U)                                                                                               \
    static void put_##N(void *at, unsigned h, int op, int rank)                                                        \
    {                                                                                                                  \
        uint64_t wide = ((uint64_t)coll_hash(h) << 32 | h) + (unsigned)rank;                                           \
        T value = (T)(U)wide;                                                                                          \
        if (op >= LAND && op <= LXOR && h % 3 == 0)                                                                    \
            value = 0;                                                                                                 \
        memcpy(at, &value, sizeof value);                                                                              \
    }                                                                                                                  \
    static void fold_##N(void *acc, const void *next, int op)                                                          \
    {                                                                                                                  \
        T a, b, r = 0;                                                                                                 \
        memcpy(&a, acc, sizeof a);                                                                                     \
        memcpy(&b, next, sizeof b);                                                                                    \
        switch (op) {                                                                                                  \
        case SUM: r = (T)((uint64_t)(U)a + (U)b); break;                                                               \
        case PROD: r = (T)((uint64_t)(U)a * (U)b); break;                                                              \
        case MAX: r = a > b ? a : b; break;                                                                            \
        case MIN: r = a < b ? a : b; break;                                                                            \
        case LAND: r = a && b; break;                                                                                  \
        case LOR: r = a || b; break;                                                                                   \
        case LXOR: r = !a != !b; break;                                                                                \
        case BAND: r = (T)(a & b); break;                                                                              \
        case BOR: r = (T)(a | b); break;                                                                               \
        case BXOR: r = (T)(a ^ b); break;                                                                              \
        }                                                                                                              \
        memcpy(acc, &r, sizeof r);                                                                                     \
    }                                                                                                                  \
    SAME(N, T, a == b)

/* Floating numbers whose sums and products are exact. */
#define REAL(N, T)                                                                                                     \
    static void put_##N(void *at, unsigned h, int op, int rank)                                                        \
    {                                                                                                                  \
        static const double factors[] = {1, -1, 2, 0.5, -2, 1};                                                        \
        T value = (T)(op == PROD ? factors[h % 6] : (double)(h % 4001) - 2000 + rank);                                 \
        memset(at, 0, sizeof value);                                                                                   \
        memcpy(at, &value, sizeof value);                                                                              \
    }                                                                                                                  \
    static void fold_##N(void *acc, const void *next, int op)                                                          \
    {                                                                                                                  \
        T a, b;                                                                                                        \
        memcpy(&a, acc, sizeof a);                                                                                     \
        memcpy(&b, next, sizeof b);                                                                                    \
        T r = op == SUM ? a + b : op == PROD ? a * b : op == MAX ? (a > b ? a : b) : (a < b ? a : b);                  \
        memcpy(acc, &r, sizeof r);                                                                                     \
    }                                                                                                                  \
    SAME(N, T, a == b)

#define COMPLEX(N, T)                                                                                                  \
    static void put_##N(void *at, unsigned h, int op, int rank)                                                        \
    {                                                                                                                  \
        static const double complex factors[] = {1, -1, I, -I, 1 + I, 0.5};                                            \
        T value = (T)(op == PROD ? factors[h % 6] : (double)(h % 999) - 500 + rank + (h >> 10) % 77 * I);              \
        memcpy(at, &value, sizeof value);                                                                              \
    }                                                                                                                  \
    static void fold_##N(void *acc, const void *next, int op)                                                          \
    {                                                                                                                  \
        T a, b;                                                                                                        \
        memcpy(&a, acc, sizeof a);                                                                                     \
        memcpy(&b, next, sizeof b);                                                                                    \
        a = op == SUM ? a + b : a * b;                                                                                 \
        memcpy(acc, &a, sizeof a);                                                                                     \
    }                                                                                                                  \
    SAME(N, T, a == b)

/* Values with a place: few different values, so that places decide. */
#define PAIR(N, T)                                                                                                     \
    typedef struct {                                                                                                   \
        T value;                                                                                                       \
        int place;                                                                                                     \
    } Pair_##N;                                                                                                        \
    static void put_##N(void *at, unsigned h, int op, int rank)                                                        \
    {                                                                                                                  \
        Pair_##N pair;                                                                                                 \
        (void)op;                                                                                                      \
        memset(&pair, GAP, sizeof pair);                                                                               \
        pair.value = (T)((int)(h % 5) - 2);                                                                            \
        pair.place = (int)((h >> 8) % 40) - rank;                                                                      \
        memcpy(at, &pair, sizeof pair);                                                                                \
    }                                                                                                                  \
    static void fold_##N(void *acc, const void *next, int op)                                                          \
    {                                                                                                                  \
        Pair_##N a, b;                                                                                                 \
        memcpy(&a, acc, sizeof a);                                                                                     \
        memcpy(&b, next, sizeof b);                                                                                    \
        int better = op == MAXLOC ? b.value > a.value : b.value < a.value;                                             \
        if (better || (b.value == a.value && b.place < a.place))                                                       \
            memcpy(acc, next, sizeof b);                                                                               \
    }                                                                                                                  \
    SAME(N, Pair_##N, a.value == b.value && a.place == b.place)

INTEGER(i8, int8_t, uint8_t)
INTEGER(u8, uint8_t, uint8_t)
INTEGER(i16, int16_t, uint16_t)
INTEGER(u16, uint16_t, uint16_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)
INTEGER(u64, uint64_t, uint64_t)
REAL(f32, float)
REAL(f64, double)
REAL(f80, long double)
COMPLEX(c32, float complex)
COMPLEX(c64, double complex)
COMPLEX(c80, long double complex)
PAIR(pair_i, int)
PAIR(pair_f, float)
PAIR(pair_d, double)
PAIR(pair_s, short)
PAIR(pair_l, long)
PAIR(pair_x, long double)

/* A truth value is a byte that is 0 or 1. */
static void put_truth(void *at, unsigned h, int op, int rank)
{
    unsigned char value = (h + (unsigned)rank) % 3 != 0;
    (void)op;
    memcpy(at, &value, sizeof value);
}

/* The user's: maps x -> ax + b, side by side or with gaps; chains of ranks, which break where two
 * that are no neighbours are joined, in a struct with holes; sums of longs in an operator that is
 * said to commute. */
typedef struct {
    char hole;
    int first;
    short hollow;
    int last;
    char end;
} Chain;

enum { BROKEN = -1 };

static Chain chain_join(Chain x, Chain y)
{
    Chain r = y;
    int fit = x.first != BROKEN && y.first != BROKEN && x.last + 1 == y.first;
    r.first = fit ? x.first : BROKEN;
    r.last = fit ? y.last : BROKEN;
    return r;
}

static void chain_function(void *in, void *inout, int *len, MPI_Datatype *type)
{
    Chain *x = in, *y = inout;
    (void)type;
    for (int k = 0; k < *len; k++) {
        Chain r = chain_join(x[k], y[k]); /* holes stay as they are: the operator's own rule */
        y[k].first = r.first;
        y[k].last = r.last;
    }
}

static void sum_function(void *in, void *inout, int *len, MPI_Datatype *type)
{
    uint64_t *x = in, *y = inout;
    (void)type;
    for (int k = 0; k < *len; k++)
        y[k] += x[k];
}

static void put_map(void *at, unsigned h, int op, int rank)
{
    Item item = {coll_hash(h) | 1u, h + (unsigned)rank};
    (void)op;
    memcpy(at, &item, sizeof item);
}

static void fold_map(void *acc, const void *next, int op)
{
    Item x, y;
    (void)op;
    memcpy(&x, acc, sizeof x);
    memcpy(&y, next, sizeof y);
    Item r = {x.a * y.a, x.a * y.b + x.b};
    memcpy(acc, &r, sizeof r);
}

SAME(map, Item, a.a == b.a && a.b == b.b)

static void fold_sums(void *acc, const void *next, int op)
{
    (void)op;
    sum_function((void *)(uintptr_t)next, acc, &(int){1}, NULL);
}

static void put_chain(void *at, unsigned h, int op, int rank)
{
    Chain *c = at;
    (void)op;
    (void)h;
    c->first = c->last = 3 * rank + 1;
    c->last = 3 * rank + 3;
}

static void fold_chain(void *acc, const void *next, int op)
{
    Chain *x = acc, r = chain_join(*x, *(const Chain *)next);
    (void)op;
    x->first = r.first;
    x->last = r.last;
}

SAME(chain, Chain, a.first == b.first && a.last == b.last)

static MPI_Op chain_op, sum_op;
static MPI_Datatype chain_type;

enum { NUMBERS = 30 };
static Number numbers[NUMBERS];
static int numbers_known;

static void number(const char *name, MPI_Datatype type, size_t bytes, int ops, void (*put)(void *, unsigned, int, int),
                   void (*fold)(void *, const void *, int), int (*same)(const void *, const void *))
{
    Number n = {name, type, bytes, ops, put, fold, same};
    numbers[numbers_known++] = n;
}

#define NUMBER(TYPE, T, OPS, N) number(#TYPE, TYPE, sizeof(T), OPS, put_##N, fold_##N, same_##N)

static TEST_UNUSED void reduce_init(void)
{
    int ones[2] = {1, 1}, integer = ARITHMETIC | ORDERING | LOGIC | BITS;
    MPI_Aint displs[2] = {offsetof(Chain, first), offsetof(Chain, last)};
    MPI_Datatype ints[2] = {MPI_INT, MPI_INT}, bare;
    MPI_Type_create_struct(2, ones, displs, ints, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(Chain), &chain_type);
    MPI_Type_commit(&chain_type);
    MPI_Type_free(&bare);
    MPI_Op_create(chain_function, 0, &chain_op);
    MPI_Op_create(sum_function, 1, &sum_op);
    NUMBER(MPI_INT8_T, int8_t, integer, i8);
    NUMBER(MPI_UINT8_T, uint8_t, integer, u8);
    NUMBER(MPI_SHORT, short, integer, i16);
    NUMBER(MPI_UINT16_T, uint16_t, integer, u16);
    NUMBER(MPI_INT, int, integer, i32);
    NUMBER(MPI_UNSIGNED, unsigned, integer, u32);
    NUMBER(MPI_LONG, long, integer, i64);
    NUMBER(MPI_UINT64_T, uint64_t, integer, u64);
    NUMBER(MPI_AINT, MPI_Aint, ARITHMETIC | ORDERING | BITS, i64);
    number("MPI_C_BOOL", MPI_C_BOOL, 1, LOGIC, put_truth, fold_u8, same_u8);
    NUMBER(MPI_BYTE, char, BITS, u8);
    NUMBER(MPI_FLOAT, float, ARITHMETIC | ORDERING, f32);
    NUMBER(MPI_DOUBLE, double, ARITHMETIC | ORDERING, f64);
    NUMBER(MPI_LONG_DOUBLE, long double, ARITHMETIC | ORDERING, f80);
    NUMBER(MPI_C_FLOAT_COMPLEX, float complex, ARITHMETIC, c32);
    NUMBER(MPI_C_DOUBLE_COMPLEX, double complex, ARITHMETIC, c64);
    NUMBER(MPI_C_LONG_DOUBLE_COMPLEX, long double complex, ARITHMETIC, c80);
    NUMBER(MPI_2INT, Pair_pair_i, PLACES_OF, pair_i);
    NUMBER(MPI_FLOAT_INT, Pair_pair_f, PLACES_OF, pair_f);
    NUMBER(MPI_DOUBLE_INT, Pair_pair_d, PLACES_OF, pair_d);
    NUMBER(MPI_SHORT_INT, Pair_pair_s, PLACES_OF, pair_s);
    NUMBER(MPI_LONG_INT, Pair_pair_l, PLACES_OF, pair_l);
    NUMBER(MPI_LONG_DOUBLE_INT, Pair_pair_x, PLACES_OF, pair_x);
    number("maps", coll_types[1], sizeof(Item), USERS, put_map, fold_map, same_map);
    number("maps with gaps", coll_types[2], 2 * sizeof(Item), USERS, put_map, fold_map, same_map);
    number("chains", chain_type, sizeof(Chain), USERS, put_chain, fold_chain, same_chain);
    number("the user's sums", MPI_UINT64_T, sizeof(uint64_t), USERS, put_u64, fold_sums, same_u64);
}

static TEST_UNUSED void reduce_end(void)
{
    MPI_Type_free(&chain_type);
    MPI_Op_free(&chain_op);
    MPI_Op_free(&sum_op);
}

static MPI_Op reduce_op(const Number *n, int op)
{
    static const MPI_Op ops[PREDEFINED] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                                           MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};
    if (op < PREDEFINED)
        return ops[op];
    return n->type == chain_type ? chain_op : n->type == MPI_UINT64_T ? sum_op : coll_compose;
}

typedef struct {
    int kind, root, rank, size, in_place, op;
    MPI_Comm comm;
    const Number *number;
    size_t length;
    int *counts; /* of each rank's part, for the reductions that scatter */
    unsigned seed;
    Buffer send, recv;
} Reduction;

static int reduce_scatters(const Reduction *r)
{
    return r->kind == REDUCE_SCATTER || r->kind == REDUCE_SCATTER_BLOCK;
}

static int reduce_results(const Reduction *r)
{
    return r->kind != REDUCE || r->rank == r->root;
}

static TEST_UNUSED void reduce_make(Reduction *r, int kind, unsigned seed, MPI_Comm comm, unsigned *own)
{
    unsigned all = seed;
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->comm = comm;
    MPI_Comm_rank(comm, &r->rank);
    MPI_Comm_size(comm, &r->size);
    r->root = among(&all, r->size);
    r->in_place = among(&all, 3) == 0;
    r->number = &numbers[among(&all, numbers_known)];
    do
        r->op = among(&all, USER + 1);
    while (!(r->number->ops & 1 << r->op));
    size_t p = (size_t)r->size, bytes = draw_bytes(&all, ((size_t)1 << 21) / p);
    if (reduce_scatters(r) && among(&all, 2))
        bytes *= p;
    bytes = bytes < (size_t)1 << 21 ? bytes : (size_t)1 << 21;
    r->length = bytes / r->number->bytes + (size_t)among(&all, 2);
    size_t longest = (p > 4 ? 100000 : 400000) / p; /* folding by hand takes the test's time */
    if (r->length > longest)
        r->length = longest + (size_t)among(&all, 9);
    r->counts = test_alloc(p * sizeof *r->counts);
    size_t part = r->length / p, left = r->length;
    for (size_t i = 0; i < p; i++) {
        size_t n = part;
        if (kind == REDUCE_SCATTER)
            n = i + 1 == p ? left : (size_t)among(&all, 3) == 0 ? 0 : coll_random(&all) % (left + 1);
        r->counts[i] = (int)n;
        left -= n;
    }
    if (kind == REDUCE_SCATTER_BLOCK)
        r->length = part * p;
    int in_place = r->in_place && reduce_results(r);
    size_t result = reduce_scatters(r) && !in_place ? (size_t)r->counts[r->rank] : r->length;
    if (!in_place)
        buffer_make(&r->send, 0, (long)(r->length * r->number->bytes), 0, among(own, MEMORIES));
    if (reduce_results(r))
        buffer_make(&r->recv, 0, (long)(result * r->number->bytes), 0, among(own, MEMORIES));
}

static void reduce_put(const Reduction *r, unsigned char *at, size_t i, int rank)
{
    unsigned h = coll_hash(r->seed + 77u * (unsigned)rank) + 31u * (unsigned)i;
    r->number->put(at, coll_hash(h), r->op, rank);
}

static TEST_UNUSED void reduce_fill(Reduction *r, unsigned seed)
{
    size_t bytes = r->number->bytes, first = 0, n = r->length;
    Buffer *from = r->send.memory.at ? &r->send : &r->recv;
    r->seed = seed;
    if (r->send.memory.at)
        buffer_clear(&r->send);
    if (r->recv.memory.at)
        buffer_clear(&r->recv);
    for (size_t i = 0; i < r->length; i++)
        reduce_put(r, from->memory.at + from->origin + i * bytes, i, r->rank);
    if (from == &r->send)
        memcpy(r->send.want.at, r->send.memory.at, r->send.want.bytes);
    if (!r->recv.memory.at)
        return;
    if (reduce_scatters(r)) {
        for (int i = 0; i < r->rank; i++)
            first += (size_t)r->counts[i];
        n = (size_t)r->counts[r->rank];
    }
    int last = r->kind == SCAN ? r->rank : r->kind == EXSCAN ? r->rank - 1 : r->size - 1;
    unsigned char *want = r->recv.want.at + r->recv.origin;
    _Alignas(16) unsigned char next[64];
    for (size_t i = 0; i < n && last >= 0; i++) {
        reduce_put(r, want + i * bytes, first + i, 0);
        for (int k = 1; k <= last; k++) {
            reduce_put(r, next, first + i, k);
            r->number->fold(want + i * bytes, next, r->op);
        }
    }
    /* What is left of the input after a part of it was the result, and rank 0's of an exclusive
     * scan. */
    r->recv.from = r->recv.origin + (last >= 0 ? n * bytes : 0);
    r->recv.to = r->recv.origin + (from == &r->recv || last < 0 ? r->length : n) * bytes;
}

static TEST_UNUSED int reduce_call(const Reduction *c, int form, MPI_Request *request)
{
    int n = (int)c->length, root = c->root;
    MPI_Datatype type = c->number->type;
    MPI_Op op = reduce_op(c->number, c->op);
    void *send = c->send.memory.at ? buffer_address(&c->send) : MPI_IN_PLACE, *recv = buffer_address(&c->recv);
    switch (c->kind) {
    case REDUCE:
        return COLL_CALL(Reduce, Ireduce, send, recv, n, type, op, root);
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

/* Guards, holes of the user's types and the send buffer by bytes; results by value where types have
 * padding. */
static TEST_UNUSED int reduce_check(Reduction *r, char *text, size_t room)
{
    const Number *number = r->number;
    long at = buffer_differs(&r->send), result = LONG_MIN;
    if (at == LONG_MIN && r->recv.memory.at) {
        size_t bytes = number->bytes, n = (r->recv.from - r->recv.origin) / bytes;
        unsigned char *is = buffer_address(&r->recv), *must = r->recv.want.at + r->recv.origin;
        for (size_t i = 0; i < n && result == LONG_MIN; i++) {
            if (!number->same(is + i * bytes, must + i * bytes))
                result = (long)i;
            else if (r->op != USER) /* what is the same may have other padding */
                memcpy(must + i * bytes, is + i * bytes, bytes);
        }
        if (result == LONG_MIN)
            at = buffer_differs(&r->recv);
    }
    if (at == LONG_MIN && result == LONG_MIN)
        return 1;
    snprintf(text, room, "%s of %zu %s, operator %d, root %d%s, rank %d of %d: %s %ld %s", coll_names[r->kind], r->length,
             number->name, r->op, r->root, r->in_place ? ", in place" : "", r->rank, r->size,
             result != LONG_MIN ? "result" : "byte", result != LONG_MIN ? result : at,
             result != LONG_MIN ? "differs" : "was written and is none of a result");
    return 0;
}

static TEST_UNUSED void reduce_relocate(Reduction *r, unsigned *own)
{
    buffer_move(&r->send, among(own, MEMORIES));
    buffer_move(&r->recv, among(own, MEMORIES));
}

static TEST_UNUSED void reduce_drop(Reduction *r)
{
    buffer_drop(&r->send);
    buffer_drop(&r->recv);
    free(r->counts);
}

#endif
