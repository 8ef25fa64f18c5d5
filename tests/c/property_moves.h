/* A random collective that moves data: blocks of any length between any two ranks, each rank with
 * types of its own. */
#ifndef PROPERTY_MOVES_H
#define PROPERTY_MOVES_H

#include "property.h"

enum { PLACES = 8 };

/* Types: items of up to eight elements at places counted in elements. */
typedef struct {
    MPI_Datatype type;
    int predefined;
    int each;
    long place[PLACES], least, most;
    long extent;
} Shape;

typedef struct {
    const char *name;
    MPI_Datatype type;
    int bytes;
} Element;

static const Element elements[] = {
    {"MPI_BYTE", MPI_BYTE, 1}, {"MPI_SHORT", MPI_SHORT, 2}, {"MPI_INT", MPI_INT, 4}, {"MPI_DOUBLE", MPI_DOUBLE, 8}};

static void shape_struct(Shape *s, const Element *e)
{
    int ones[PLACES];
    MPI_Aint displs[PLACES];
    MPI_Datatype types[PLACES];
    for (int i = 0; i < s->each; i++) {
        ones[i] = 1;
        displs[i] = s->place[i] * e->bytes;
        types[i] = e->type;
    }
    MPI_Type_create_struct(s->each, ones, displs, types, &s->type);
}

/* Draws a type of which `granule` elements are a whole number of items, for a buffer of that many
 * elements in all and `gaps` items between them. */
static void shape_draw(Shape *s, const Element *e, int granule, long all, long gaps, unsigned *own)
{
    static const int sizes[] = {1, 2, 3, 4, 6, 8};
    MPI_Datatype bare = MPI_DATATYPE_NULL;
    int kind = among(own, 8), places[PLACES];
    long lower = 0, at = 0, extent = 0; /* 0: what comes by itself */
    do
        s->each = sizes[among(own, 6)];
    while (granule % s->each != 0);
    s->predefined = 0;
    for (int i = 0; i < s->each; i++)
        s->place[i] = i;
    switch (kind) {
    case 0: case 1: /* the elements themselves */
        s->each = 1;
        s->predefined = 1;
        s->type = e->type;
        break;
    case 2:
        MPI_Type_contiguous(s->each, e->type, &s->type);
        break;
    case 3: { /* a vector; one item begins where the last one ends */
        int step = 2 + among(own, 3);
        for (int i = 0; i < s->each; i++)
            s->place[i] = (long)i * step;
        MPI_Type_vector(s->each, 1, step, e->type, &s->type);
        break;
    }
    case 4: /* indexed: gaps of any length, and backwards every other time */
        for (int i = 0; i < s->each; i++) {
            at += among(own, 3);
            places[i] = (int)at++;
        }
        if (among(own, 2))
            for (int i = 0; i < s->each / 2; i++) {
                int other = places[s->each - 1 - i];
                places[s->each - 1 - i] = places[i];
                places[i] = other;
            }
        for (int i = 0; i < s->each; i++)
            s->place[i] = places[i];
        MPI_Type_create_indexed_block(s->each, 1, places, e->type, &s->type);
        break;
    case 5: /* a struct whose extent leaves room around it, with another lower bound */
        for (int i = 0; i < s->each; i++)
            s->place[i] = i + i / 2;
        shape_struct(s, e);
        lower = -2;
        extent = s->place[s->each - 1] + 1 + 2 + among(own, 4);
        break;
    case 6: /* one element in front of another, then a large gap */
        for (int i = 0; i < s->each; i++)
            s->place[i] = s->each - 1 - i;
        shape_struct(s, e);
        extent = s->each + 5;
        break;
    default: /* columns: item i lies between the elements of the others */
        for (int i = 0; i < s->each; i++)
            s->place[i] = i * (all / s->each + gaps);
        MPI_Type_vector(s->each, 1, (int)(all / s->each + gaps), e->type, &s->type);
        extent = 1;
    }
    s->least = s->most = s->place[0];
    for (int i = 0; i < s->each; i++) {
        s->least = s->place[i] < s->least ? s->place[i] : s->least;
        s->most = s->place[i] > s->most ? s->place[i] : s->most;
    }
    s->extent = extent ? extent : s->most + 1 - s->least;
    if (extent) {
        bare = s->type;
        MPI_Type_create_resized(bare, lower * e->bytes, extent * e->bytes, &s->type);
        MPI_Type_free(&bare);
    }
    if (!s->predefined)
        MPI_Type_commit(&s->type);
}

static void shape_free(Shape *s)
{
    if (!s->predefined && s->type != MPI_DATATYPE_NULL)
        MPI_Type_free(&s->type);
    s->type = MPI_DATATYPE_NULL;
}

/* One side of the exchange at one rank: blocks in a buffer. */
typedef struct {
    int blocks;
    int *counts, *displs; /* displacements in items, or in bytes if each block has its own type */
    Shape *shapes;
    MPI_Datatype *types;
    int by_bytes;
    int shaped; /* number of shapes: one for all, or by bytes one for each block */
    Buffer buffer;
} Side;

typedef struct {
    int kind, root, rank, size, in_place, granule, odd, how;
    MPI_Comm comm;
    const Element *element;
    size_t length;  /* granules in a block, at most */
    unsigned shape; /* what the lengths of blocks are drawn from */
    unsigned seed;  /* of the contents */
    Side send, recv;
} Move;

/* Granules of the block that goes from i to j. */
static size_t move_length(const Move *m, int i, int j)
{
    unsigned low = (unsigned)(i < j ? i : j), high = (unsigned)(i < j ? j : i);
    unsigned h = m->shape;
    switch (m->kind) {
    case GATHERV: case ALLGATHERV:
        h += 77u * (unsigned)i;
        break;
    case SCATTERV:
        h += 77u * (unsigned)j;
        break;
    case ALLTOALLV: case ALLTOALLW: /* in place, what i has for j is as long as what j has for i */
        h += m->in_place ? 77u * low + 7919u * high : 77u * (unsigned)i + 7919u * (unsigned)j;
        break;
    default:
        return m->length;
    }
    h = coll_hash(h);
    return h % 4 == 0 ? 0 : h % 4 == 1 ? m->length : (h >> 8) % (m->length + 1);
}

/* The eight bytes from which element k of a block is cut. */
static uint64_t move_value(const Move *m, int from, int to, size_t k)
{
    uint64_t x = ((uint64_t)m->seed << 32) + (uint64_t)from * 0x632be59bd9b4e019u + (uint64_t)to * 0x8cb92ba72f3d8dd7u;
    x += (k + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 29);
}

static void move_put(const Move *m, const Side *s, unsigned char *image, int block, int from, int to)
{
    const Shape *shape = &s->shapes[s->by_bytes ? block : 0];
    size_t bytes = (size_t)m->element->bytes, k = 0;
    long start = s->displs[block];
    if (!s->by_bytes)
        start *= shape->extent * (long)bytes;
    for (int item = 0; item < s->counts[block]; item++) {
        long base = (long)s->buffer.origin + start + item * shape->extent * (long)bytes;
        for (int i = 0; i < shape->each; i++, k++) {
            uint64_t value = move_value(m, from, to, k);
            memcpy(image + base + shape->place[i] * (long)bytes, &value, bytes);
        }
    }
}

/* The same place of one image to another. */
static void move_both(const Move *m, Side *s, int block, int from, int to)
{
    move_put(m, s, s->buffer.memory.at, block, from, to);
    move_put(m, s, s->buffer.want.at, block, from, to);
}

static void side_drop(Side *s)
{
    for (int i = 0; i < s->shaped; i++)
        shape_free(&s->shapes[i]);
    buffer_drop(&s->buffer);
    free(s->counts);
    free(s->shapes);
    free(s->types);
    memset(s, 0, sizeof *s);
}

enum { PACKED, PLACED, BY_BYTES };

/* Blocks of these many granules: one after the other, anywhere with gaps between, or by bytes and
 * with types of their own. */
static void side_make(Side *s, const Move *m, const size_t *lengths, int blocks, int layout, unsigned *own)
{
    const Element *e = m->element;
    long at = 0, low = 0, high = 0;
    int *order = test_alloc((size_t)blocks * sizeof *order), first = 1;
    s->blocks = blocks;
    s->by_bytes = layout == BY_BYTES;
    s->shaped = s->by_bytes ? blocks : 1;
    s->counts = test_alloc(2 * (size_t)blocks * sizeof(int));
    s->displs = s->counts + blocks;
    s->shapes = test_alloc((size_t)s->shaped * sizeof *s->shapes);
    s->types = test_alloc((size_t)blocks * sizeof *s->types);
    for (int i = 0; i < blocks; i++) {
        int other = layout == PACKED ? i : among(own, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    if (!s->by_bytes) {
        long all = 0;
        for (int i = 0; i < blocks; i++)
            all += (long)lengths[i] * m->granule;
        shape_draw(&s->shapes[0], e, m->granule, all, 2 * blocks + 2, own);
    }
    for (int n = 0; n < blocks; n++) {
        int i = order[n];
        long elements_of = (long)lengths[i] * m->granule;
        if (s->by_bytes)
            shape_draw(&s->shapes[i], e, m->granule, elements_of, 1, own);
        Shape *shape = &s->shapes[s->by_bytes ? i : 0];
        long from, count = elements_of / shape->each;
        s->types[i] = shape->type;
        s->counts[i] = (int)count;
        at += layout == PACKED ? 0 : among(own, 3);
        if (s->by_bytes) {
            from = at - shape->least;
            at = count ? from + (count - 1) * shape->extent + shape->most + 1 : at;
            s->displs[i] = (int)(from * e->bytes);
        } else {
            from = at * shape->extent;
            s->displs[i] = (int)at;
            at += count;
        }
        if (count) {
            long least = from + shape->least, most = from + (count - 1) * shape->extent + shape->most + 1;
            low = first || least < low ? least : low;
            high = first || most > high ? most : high;
            first = 0;
        }
    }
    buffer_make(&s->buffer, low * e->bytes, high * e->bytes, e->bytes == 1 ? m->odd : 0, m->how);
    free(order);
}

static int move_rooted(const Move *m)
{
    return m->kind == BCAST || (m->kind >= GATHER && m->kind <= SCATTERV);
}

/* All ranks of the communicator draw the same case from the seed, and their types and memory from
 * `own`. */
static TEST_UNUSED void move_make(Move *m, int kind, unsigned seed, MPI_Comm comm, unsigned *own)
{
    static const int granules[] = {1, 1, 2, 4, 6, 8, 24};
    unsigned all = seed;
    memset(m, 0, sizeof *m);
    m->kind = kind;
    m->comm = comm;
    MPI_Comm_rank(comm, &m->rank);
    MPI_Comm_size(comm, &m->size);
    m->root = among(&all, m->size);
    m->in_place = among(&all, 3) == 0;
    m->element = &elements[among(&all, 4)];
    m->granule = granules[among(&all, 7)];
    m->shape = coll_random(&all);
    m->odd = among(own, 16);
    m->how = among(own, MEMORIES);
    int many = kind >= ALLGATHER, several = many || kind != BCAST;
    size_t blocks = several ? (size_t)m->size : 1, most = ((size_t)1 << (many ? 21 : 22)) / blocks;
    /* many ranks share few cores: the longest would only make them wait for each other more often
     */
    size_t bytes = draw_bytes(&all, m->size > 4 ? most / 4 : most), granule = (size_t)(m->granule * m->element->bytes);
    if (granule > 1 && bytes > 200000 && m->element->bytes < 4) /* a large number of small elements only takes time */
        bytes /= 4;
    m->length = (bytes + (size_t)among(&all, 2) * (granule - 1)) / granule;

    size_t *out = test_alloc(2 * (size_t)m->size * sizeof *out), *in = out + m->size;
    for (int i = 0; i < m->size; i++) {
        out[i] = move_length(m, m->rank, i);
        in[i] = move_length(m, i, m->rank);
    }
    int me = m->rank, root = m->rank == m->root, p = m->size, placed = kind == ALLTOALLW ? BY_BYTES : PLACED;
    switch (kind) {
    case BARRIER:
        break;
    case BCAST:
        side_make(&m->recv, m, in, 1, PACKED, own);
        break;
    case GATHER: case GATHERV: case ALLGATHER: case ALLGATHERV:
        if (!m->in_place || (kind <= GATHERV && !root))
            side_make(&m->send, m, &out[me], 1, PACKED, own);
        if (kind >= ALLGATHER || root)
            side_make(&m->recv, m, in, p, kind == GATHER || kind == ALLGATHER ? PACKED : PLACED, own);
        break;
    case SCATTER: case SCATTERV:
        if (root)
            side_make(&m->send, m, out, p, kind == SCATTER ? PACKED : PLACED, own);
        if (!m->in_place || !root)
            side_make(&m->recv, m, &in[m->root], 1, PACKED, own);
        break;
    default:
        if (!m->in_place)
            side_make(&m->send, m, out, p, kind == ALLTOALL ? PACKED : placed, own);
        side_make(&m->recv, m, in, p, kind == ALLTOALL ? PACKED : placed, own);
    }
    free(out);
}

/* New contents. */
static TEST_UNUSED void move_fill(Move *m, unsigned seed)
{
    int me = m->rank, root = m->rank == m->root;
    m->seed = seed;
    if (m->send.blocks)
        buffer_clear(&m->send.buffer);
    if (m->recv.blocks)
        buffer_clear(&m->recv.buffer);
    switch (m->kind) {
    case BARRIER:
        break;
    case BCAST:
        move_put(m, &m->recv, m->recv.buffer.want.at, 0, m->root, 0);
        if (root)
            move_put(m, &m->recv, m->recv.buffer.memory.at, 0, m->root, 0);
        break;
    case GATHER: case GATHERV: case ALLGATHER: case ALLGATHERV:
        if (m->send.blocks)
            move_both(m, &m->send, 0, me, 0);
        else
            move_put(m, &m->recv, m->recv.buffer.memory.at, me, me, 0);
        for (int i = 0; i < m->recv.blocks; i++)
            move_put(m, &m->recv, m->recv.buffer.want.at, i, i, 0);
        break;
    case SCATTER: case SCATTERV:
        for (int j = 0; j < m->send.blocks; j++)
            move_both(m, &m->send, j, me, j);
        if (m->recv.blocks)
            move_put(m, &m->recv, m->recv.buffer.want.at, 0, m->root, me);
        break;
    default:
        for (int j = 0; j < m->size; j++) {
            if (m->send.blocks)
                move_both(m, &m->send, j, me, j);
            else
                move_put(m, &m->recv, m->recv.buffer.memory.at, j, me, j);
            move_put(m, &m->recv, m->recv.buffer.want.at, j, j, me);
        }
    }
}

/* The first item's count and type, or none where the side does not exist. */
static int side_count(const Side *s)
{
    return s->blocks ? s->counts[0] : 0;
}

static MPI_Datatype side_type(const Side *s)
{
    return s->blocks ? s->types[0] : MPI_BYTE;
}

static TEST_UNUSED int move_call(const Move *c, int form, MPI_Request *request)
{
    const Side *s = &c->send, *r = &c->recv;
    int root = c->root, at_root = c->rank == root, sn = side_count(s), rn = side_count(r);
    MPI_Datatype st = side_type(s), rt = side_type(r);
    void *send = c->in_place && (at_root || !move_rooted(c)) ? MPI_IN_PLACE : buffer_address(&s->buffer);
    void *recv = buffer_address(&r->buffer), *here = c->in_place && at_root ? MPI_IN_PLACE : recv;
    switch (c->kind) {
    case BARRIER:
        return form == BLOCKING      ? MPI_Barrier(c->comm)
               : form == NONBLOCKING ? MPI_Ibarrier(c->comm, request)
                                     : MPI_Barrier_init(c->comm, MPI_INFO_NULL, request);
    case BCAST:
        return COLL_CALL(Bcast, Ibcast, recv, rn, rt, root);
    case GATHER:
        return COLL_CALL(Gather, Igather, send, sn, st, recv, rn, rt, root);
    case GATHERV:
        return COLL_CALL(Gatherv, Igatherv, send, sn, st, recv, r->counts, r->displs, rt, root);
    case SCATTER:
        return COLL_CALL(Scatter, Iscatter, buffer_address(&s->buffer), sn, st, here, rn, rt, root);
    case SCATTERV:
        return COLL_CALL(Scatterv, Iscatterv, buffer_address(&s->buffer), s->counts, s->displs, st, here, rn, rt, root);
    case ALLGATHER:
        return COLL_CALL(Allgather, Iallgather, send, sn, st, recv, rn, rt);
    case ALLGATHERV:
        return COLL_CALL(Allgatherv, Iallgatherv, send, sn, st, recv, r->counts, r->displs, rt);
    case ALLTOALL:
        return COLL_CALL(Alltoall, Ialltoall, send, sn, st, recv, rn, rt);
    case ALLTOALLV:
        return COLL_CALL(Alltoallv, Ialltoallv, send, s->counts, s->displs, st, recv, r->counts, r->displs, rt);
    default:
        return COLL_CALL(Alltoallw, Ialltoallw, send, s->counts, s->displs, s->types, recv, r->counts, r->displs, r->types);
    }
}

/* Both buffers, gaps and guards included: what was sent is as it was. */
static TEST_UNUSED int move_check(const Move *m, char *text, size_t room)
{
    long sent = buffer_differs(&m->send.buffer), got = buffer_differs(&m->recv.buffer), at = sent != LONG_MIN ? sent : got;
    if (at == LONG_MIN)
        return 1;
    snprintf(text, room, "%s of up to %zu x %d %s, root %d%s, rank %d of %d: byte %ld of the %s buffer differs",
             coll_names[m->kind], m->length, m->granule, m->element->name, m->root, m->in_place ? ", in place" : "",
             m->rank, m->size, at, sent != LONG_MIN ? "send" : "receive");
    return 0;
}

static TEST_UNUSED void move_relocate(Move *m, unsigned *own)
{
    buffer_move(&m->send.buffer, among(own, MEMORIES));
    buffer_move(&m->recv.buffer, among(own, MEMORIES));
}

/* A call that was made keeps what it needs of the types. */
static TEST_UNUSED void move_forget_types(Move *m)
{
    for (int i = 0; i < m->send.shaped; i++)
        shape_free(&m->send.shapes[i]);
    for (int i = 0; i < m->recv.shaped; i++)
        shape_free(&m->recv.shapes[i]);
}

static TEST_UNUSED void move_drop(Move *m)
{
    side_drop(&m->send);
    side_drop(&m->recv);
}

#endif
