/* A collective operation as a value: any of the seventeen, in any of its three forms, with data
 * that is made from a seed and the whole receive buffer known beforehand, gaps and holes included.
 */
#ifndef COLLECTIVES_H
#define COLLECTIVES_H

#include "test.h"

enum {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, REDUCE,
    ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, COLL_KINDS
};
enum { BLOCKING, NONBLOCKING, PERSISTENT };

static const char *const coll_names[COLL_KINDS] = {
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
    "alltoallw", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"};

/* The map x -> a x + b. To compose two is associative and does not commute. */
typedef struct {
    unsigned a, b;
} Item;

typedef struct {
    /* What: set by coll_make. */
    int kind, n, root, stride, in_place, user_op;
    MPI_Comm comm;
    int rank, size;
    /* Data: set by coll_fill. */
    unsigned seed;
    Item *send, *recv, *want;
    size_t items;
    /* Arguments. */
    int *scounts, *sdispls, *rcounts, *rdispls;
    MPI_Datatype *types;
} Coll;

/* Items at distance 1 and 2. */
static MPI_Datatype coll_types[3];
static MPI_Op coll_compose;
static _Atomic int coll_composed; /* calls of the operator */

static void coll_compose_function(void *in, void *inout, int *len, MPI_Datatype *type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    coll_composed++;
    for (int k = 0; k < *len; k++) {
        Item *x = (Item *)((char *)in + k * extent), *y = (Item *)((char *)inout + k * extent);
        Item r = {x->a * y->a, x->a * y->b + x->b};
        *y = r;
    }
}

static TEST_UNUSED void coll_init(void)
{
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
    for (int stride = 1; stride <= 2; stride++) {
        MPI_Type_create_resized(pair, 0, stride * (MPI_Aint)sizeof(Item), &coll_types[stride]);
        MPI_Type_commit(&coll_types[stride]);
    }
    MPI_Type_free(&pair);
    MPI_Op_create(coll_compose_function, 0, &coll_compose);
}

static TEST_UNUSED void coll_end(void)
{
    MPI_Type_free(&coll_types[1]);
    MPI_Type_free(&coll_types[2]);
    MPI_Op_free(&coll_compose);
}

static unsigned coll_hash(unsigned x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* A generator that every rank may have for itself or share with all by the same seed. */
static TEST_UNUSED unsigned coll_random(unsigned *state)
{
    *state += 0x9e3779b9u;
    return coll_hash(*state);
}

/* Item k of what rank `from` has for rank `to` (0 if it has the same for all). */
static Item coll_item(const Coll *c, int from, int to, int k)
{
    unsigned h = coll_hash(c->seed + 77u * (unsigned)from) + 1009u * (unsigned)to + 31u * (unsigned)k;
    unsigned a = coll_hash(h);
    Item item = {a | 1u, a * 0x9e3779b9u + h};
    return item;
}

/* Items of a block between ranks i and j in the v- and w-forms: some blocks are empty, some short.
 */
static int coll_count(const Coll *c, int i, int j)
{
    return (i + j) % 4 == 3 ? 0 : (i + j) % 2 ? c->n / 2 : c->n;
}

static int coll_reduces(const Coll *c)
{
    return c->kind >= REDUCE;
}

/* Where block i of the v- and w-forms begins, with a gap of one item before each. */
static void coll_blocks(const Coll *c, int pairwise, int *counts, int *displs)
{
    int at = 1;
    for (int i = 0; i < c->size; i++) {
        counts[i] = coll_count(c, i, pairwise ? c->rank : 0);
        displs[i] = at;
        at += counts[i] + 1;
    }
}

/* Reductions by MPI_SUM work on twice as many numbers. */
static int coll_unit(const Coll *c)
{
    return c->user_op ? 1 : 2;
}

static TEST_UNUSED void coll_make(Coll *c, int kind, int n, int root, int stride, int in_place, int user_op,
                                  MPI_Comm comm)
{
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->n = n;
    c->root = root;
    c->user_op = user_op;
    c->stride = kind >= REDUCE && !user_op ? 1 : stride; /* MPI_SUM knows no holes */
    c->in_place = in_place;
    c->comm = comm;
    MPI_Comm_rank(comm, &c->rank);
    MPI_Comm_size(comm, &c->size);
    c->items = ((size_t)n + 1) * (size_t)c->size * (size_t)c->stride + 2;
    c->send = test_alloc(3 * c->items * sizeof(Item));
    c->recv = c->send + c->items;
    c->want = c->recv + c->items;
    size_t p = (size_t)c->size;
    c->scounts = test_alloc(4 * p * sizeof(int));
    c->sdispls = c->scounts + p;
    c->rcounts = c->sdispls + p;
    c->rdispls = c->rcounts + p;
    c->types = test_alloc(p * sizeof(MPI_Datatype));
    int pairwise = kind == ALLTOALLV || kind == ALLTOALLW;
    coll_blocks(c, pairwise, c->scounts, c->sdispls);
    coll_blocks(c, pairwise, c->rcounts, c->rdispls);
    for (int i = 0; i < c->size; i++) {
        if (kind == REDUCE_SCATTER)
            c->rcounts[i] *= coll_unit(c);
        c->types[i] = coll_types[c->stride];
        if (kind == ALLTOALLW) { /* bytes; the same items as another type */
            c->sdispls[i] *= c->stride * (int)sizeof(Item);
            c->rdispls[i] *= c->stride * (int)sizeof(Item);
            if (c->stride == 1 && (c->rank + i) % 3 == 0) {
                c->types[i] = MPI_UNSIGNED;
                c->scounts[i] *= 2;
                c->rcounts[i] *= 2;
            }
        }
    }
}

static TEST_UNUSED void coll_drop(Coll *c)
{
    free(c->send);
    free(c->scounts);
    free(c->types);
}

/* Writes `n` items of what `from` has for `to`, the first of them its number `first`, to place `at`
 * of `buf`. */
static void coll_put(const Coll *c, Item *buf, int at, int from, int to, int first, int n)
{
    for (int k = 0; k < n; k++)
        buf[(at + k) * c->stride] = coll_item(c, from, to, first + k);
}

/* Place of block i in a buffer of blocks. */
static int coll_at(const Coll *c, int i)
{
    int at = 1;
    switch (c->kind) {
    case GATHERV: case SCATTERV: case ALLGATHERV: case ALLTOALLV: case ALLTOALLW:
        for (int k = 0; k < i; k++)
            at += coll_count(c, k, c->kind >= ALLTOALLV ? c->rank : 0) + 1;
        return at;
    default:
        return i * c->n;
    }
}

/* Items of the block that goes from i to j. */
static int coll_block(const Coll *c, int i, int j)
{
    switch (c->kind) {
    case GATHERV: case ALLGATHERV:
        return coll_count(c, i, 0);
    case SCATTERV:
        return coll_count(c, j, 0);
    case ALLTOALLV: case ALLTOALLW:
        return coll_count(c, i, j);
    default:
        return c->n;
    }
}

/* Items of the vector that is reduced, and where this rank's part of the result starts in it. */
static int coll_vector(const Coll *c, int *part)
{
    int total = 0;
    *part = 0;
    switch (c->kind) {
    case REDUCE_SCATTER:
        for (int i = 0; i < c->size; i++) {
            *part += i < c->rank ? coll_count(c, i, 0) : 0;
            total += coll_count(c, i, 0);
        }
        return total;
    case REDUCE_SCATTER_BLOCK:
        *part = c->rank * c->n;
        return c->size * c->n;
    default:
        return c->n;
    }
}

/* The reduction of the items `first` to `first + n - 1` over ranks 0 to `last`. */
static void coll_fold(const Coll *c, Item *buf, int last, int first, int n)
{
    for (int k = 0; k < n; k++) {
        Item acc = coll_item(c, 0, 0, first + k);
        for (int i = 1; i <= last; i++) {
            Item y = coll_item(c, i, 0, first + k);
            Item composed = {acc.a * y.a, acc.a * y.b + acc.b}, sum = {acc.a + y.a, acc.b + y.b};
            acc = c->user_op ? composed : sum;
        }
        buf[k * c->stride] = acc;
    }
}

/* New data in the same buffers. */
static TEST_UNUSED void coll_fill(Coll *c, unsigned seed)
{
    int me = c->rank, p = c->size, root = me == c->root, part;
    c->seed = seed;
    memset(c->send, 0xa5, 3 * c->items * sizeof(Item));
    switch (c->kind) {
    case BARRIER:
        break;
    case BCAST:
        if (root)
            coll_put(c, c->recv, 0, c->root, 0, 0, c->n);
        coll_put(c, c->want, 0, c->root, 0, 0, c->n);
        break;
    case GATHER: case GATHERV: case ALLGATHER: case ALLGATHERV: {
        int all = c->kind >= ALLGATHER;
        if (c->in_place && (all || root))
            coll_put(c, c->recv, coll_at(c, me), me, 0, 0, coll_block(c, me, 0));
        else
            coll_put(c, c->send, 0, me, 0, 0, coll_block(c, me, 0));
        for (int i = 0; i < p && (all || root); i++)
            coll_put(c, c->want, coll_at(c, i), i, 0, 0, coll_block(c, i, 0));
        break;
    }
    case SCATTER: case SCATTERV:
        for (int j = 0; j < p && root; j++)
            coll_put(c, c->send, coll_at(c, j), me, j, 0, coll_block(c, me, j));
        if (!(c->in_place && root))
            coll_put(c, c->want, 0, c->root, me, 0, coll_block(c, c->root, me));
        break;
    case ALLTOALL: case ALLTOALLV: case ALLTOALLW:
        for (int j = 0; j < p; j++) {
            coll_put(c, c->in_place ? c->recv : c->send, coll_at(c, j), me, j, 0, coll_block(c, me, j));
            coll_put(c, c->want, coll_at(c, j), j, me, 0, coll_block(c, j, me));
        }
        break;
    case REDUCE: case ALLREDUCE: case REDUCE_SCATTER: case REDUCE_SCATTER_BLOCK: {
        int n = coll_vector(c, &part);
        coll_put(c, c->in_place && (c->kind != REDUCE || root) ? c->recv : c->send, 0, me, 0, 0, n);
        if (c->kind == REDUCE_SCATTER)
            n = coll_count(c, me, 0);
        if (c->kind == REDUCE_SCATTER_BLOCK)
            n = c->n;
        if (c->kind != REDUCE || root)
            coll_fold(c, c->want, p - 1, part, n);
        break;
    }
    case SCAN: case EXSCAN:
        coll_put(c, c->in_place ? c->recv : c->send, 0, me, 0, 0, c->n);
        if (c->kind == SCAN || me > 0)
            coll_fold(c, c->want, me - (c->kind == EXSCAN), 0, c->n);
        break;
    }
}

/* Makes the call in one of its forms; the request is not looked at by the blocking one. */
#define COLL_CALL(name, iname, ...)                                                                                    \
    (form == BLOCKING      ? MPI_##name(__VA_ARGS__, c->comm)                                                          \
     : form == NONBLOCKING ? MPI_##iname(__VA_ARGS__, c->comm, request)                                                \
                           : MPI_##name##_init(__VA_ARGS__, c->comm, MPI_INFO_NULL, request))

static TEST_UNUSED int coll_call(Coll *c, int form, MPI_Request *request)
{
    int n = c->n, root = c->root, at_root = c->rank == root, own = coll_count(c, c->rank, 0);
    int unit = coll_unit(c), all = c->in_place, first = c->in_place && at_root;
    MPI_Datatype type = coll_types[c->stride];
    MPI_Datatype rtype = c->user_op ? type : MPI_UNSIGNED;
    MPI_Op op = c->user_op ? coll_compose : MPI_SUM;
    void *send = c->send, *recv = c->recv, *send_all = all ? MPI_IN_PLACE : send, *send_root = first ? MPI_IN_PLACE : send;
    void *recv_root = first ? MPI_IN_PLACE : recv;
    switch (c->kind) {
    case BARRIER:
        return form == BLOCKING      ? MPI_Barrier(c->comm)
               : form == NONBLOCKING ? MPI_Ibarrier(c->comm, request)
                                     : MPI_Barrier_init(c->comm, MPI_INFO_NULL, request);
    case BCAST:
        return COLL_CALL(Bcast, Ibcast, recv, n, type, root);
    case GATHER:
        return COLL_CALL(Gather, Igather, send_root, n, type, recv, n, type, root);
    case GATHERV:
        return COLL_CALL(Gatherv, Igatherv, send_root, own, type, recv, c->rcounts, c->rdispls, type, root);
    case SCATTER:
        return COLL_CALL(Scatter, Iscatter, send, n, type, recv_root, n, type, root);
    case SCATTERV:
        return COLL_CALL(Scatterv, Iscatterv, send, c->scounts, c->sdispls, type, recv_root, own, type, root);
    case ALLGATHER:
        return COLL_CALL(Allgather, Iallgather, send_all, n, type, recv, n, type);
    case ALLGATHERV:
        return COLL_CALL(Allgatherv, Iallgatherv, send_all, own, type, recv, c->rcounts, c->rdispls, type);
    case ALLTOALL:
        return COLL_CALL(Alltoall, Ialltoall, send_all, n, type, recv, n, type);
    case ALLTOALLV:
        return COLL_CALL(Alltoallv, Ialltoallv, send_all, c->scounts, c->sdispls, type, recv, c->rcounts, c->rdispls, type);
    case ALLTOALLW:
        return COLL_CALL(Alltoallw, Ialltoallw, send_all, c->scounts, c->sdispls, c->types, recv, c->rcounts, c->rdispls,
                         c->types);
    case REDUCE:
        return COLL_CALL(Reduce, Ireduce, send_root, recv, n * unit, rtype, op, root);
    case ALLREDUCE:
        return COLL_CALL(Allreduce, Iallreduce, send_all, recv, n * unit, rtype, op);
    case REDUCE_SCATTER:
        return COLL_CALL(Reduce_scatter, Ireduce_scatter, send_all, recv, c->rcounts, rtype, op);
    case REDUCE_SCATTER_BLOCK:
        return COLL_CALL(Reduce_scatter_block, Ireduce_scatter_block, send_all, recv, n * unit, rtype, op);
    case SCAN:
        return COLL_CALL(Scan, Iscan, send_all, recv, n * unit, rtype, op);
    default:
        return COLL_CALL(Exscan, Iexscan, send_all, recv, n * unit, rtype, op);
    }
}

/* Compares the receive buffer, to its end where all of it is defined. */
static TEST_UNUSED void coll_check(const Coll *c, const char *what)
{
    size_t checked = c->items;
    int part;
    if ((c->kind == REDUCE_SCATTER || c->kind == REDUCE_SCATTER_BLOCK) && c->in_place)
        checked = (size_t)(c->kind == REDUCE_SCATTER ? coll_count(c, c->rank, 0) : c->n) * (size_t)c->stride;
    if (c->kind == EXSCAN && c->rank == 0)
        checked = 0;
    if (memcmp(c->recv, c->want, checked * sizeof(Item)) == 0)
        return;
    for (size_t i = 0; i < checked; i++)
        if (memcmp(&c->recv[i], &c->want[i], sizeof(Item)) != 0) {
            int n = coll_reduces(c) ? coll_vector(c, &part) : c->n;
            CHECK(0, "%s, %s of %d items (stride %d, root %d%s%s), rank %d of %d: item %zu is (%#x, %#x), not (%#x, %#x)",
                  what, coll_names[c->kind], n, c->stride, c->root, c->in_place ? ", in place" : "",
                  c->user_op ? ", user's operator" : "", c->rank, c->size, i, c->recv[i].a, c->recv[i].b, c->want[i].a,
                  c->want[i].b);
            return;
        }
}

#endif
