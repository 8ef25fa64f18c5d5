/* Elementary types, views and memory of random shapes, with the place of each byte computed by
 * hand, so that what is checked does not rest on the library's types. Used by io_random.c. */
#ifndef IO_MODEL_H
#define IO_MODEL_H

#include "io.h"

enum { UNITS_MAX = 16, COUNT_MAX = 40, ETYPES = 7 };

/* The numbers that all ranks draw alike. */
static uint64_t seed = 1, drawn;

static int draw(int n)
{
    return (int)(test_word(seed, drawn++) % (unsigned)n);
}

/* An elementary type: its bytes are `len[0]` from 0 on and `len[1]` from `at` on. */
typedef struct {
    const char *name;
    MPI_Datatype type;
    int extent, at, len[2];
} Etype;

static Etype etypes[ETYPES];

static MPI_Datatype commit(MPI_Datatype t)
{
    MPI_Type_commit(&t);
    return t;
}

static MPI_Datatype char_and_int(int at, int extent)
{
    MPI_Datatype t, u;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, at},
                           (MPI_Datatype[]){MPI_CHAR, MPI_INT}, &t);
    MPI_Type_create_resized(t, 0, extent, &u);
    MPI_Type_free(&t);
    return commit(u);
}

static void etypes_make(void)
{
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_SHORT, &three);
    etypes[0] = (Etype){"byte", MPI_BYTE, 1, 0, {1, 0}};
    etypes[1] = (Etype){"short", MPI_SHORT, 2, 0, {2, 0}};
    etypes[2] = (Etype){"int", MPI_INT, 4, 0, {4, 0}};
    etypes[3] = (Etype){"double", MPI_DOUBLE, 8, 0, {8, 0}};
    etypes[4] = (Etype){"three shorts", commit(three), 6, 0, {6, 0}};
    etypes[5] = (Etype){"char and int", char_and_int(1, 5), 5, 1, {1, 4}};
    etypes[6] = (Etype){"char, gap, int", char_and_int(4, 8), 8, 4, {1, 4}};
}

static void etypes_free(void)
{
    for (int i = 4; i < ETYPES; i++)
        MPI_Type_free(&etypes[i].type);
}

/* The n-th data byte of an elementary type. */
static int byte_of(const Etype *e, int n)
{
    return n < e->len[0] ? n : e->at + n - e->len[0];
}

static int size_of(const Etype *e)
{
    return e->len[0] + e->len[1];
}

/* What a rank sees: units at `at` in a pattern of `extent` bytes. */
typedef enum { CONTIGUOUS, VECTOR, INDEXED, STRUCT, SUBARRAY, NESTED, SHAPES } Shape;

static const char *const shapes[SHAPES] = {"contiguous", "vector",   "indexed",
                                           "struct",     "subarray", "nested"};

typedef struct {
    Shape shape;
    long disp, extent, at[UNITS_MAX];
    int units, a, b, c, d, lead; /* of the shape */
} View;

/* Where byte n of unit k is in the file. */
static long view_place(const View *v, const Etype *e, long k, int n)
{
    return v->disp + k / v->units * v->extent + v->at[k % v->units] + byte_of(e, n);
}

static void add_unit(View *v, const Etype *e, long at)
{
    v->at[v->units++] = at * e->extent;
}

/* Holes are multiples of the elementary type's extent (14.1.1). */
static View view_draw(const Etype *e)
{
    View v = {.shape = (Shape)draw(SHAPES), .disp = draw(700)};
    long end = 0;
    v.a = 1 + draw(4), v.b = 1 + draw(3), v.c = v.b + draw(4), v.d = 1 + draw(3);
    v.lead = draw(3);
    if (v.shape == CONTIGUOUS) {
        for (int i = 0; i < v.a; i++)
            add_unit(&v, e, i);
    } else if (v.shape == VECTOR) { /* a blocks of b, c apart */
        for (int i = 0; i < v.a * v.b; i++)
            add_unit(&v, e, i / v.b * v.c + i % v.b);
    } else if (v.shape == INDEXED || v.shape == STRUCT) {
        for (int i = 0; i < v.a * v.d; i++)
            add_unit(&v, e, end += 1 + (draw(3) ? 0 : draw(5)));
    } else if (v.shape == SUBARRAY) { /* a x b of (a + d) x (c + lead) from (d, lead) on */
        for (int i = 0; i < v.a * v.b; i++)
            add_unit(&v, e, (i / v.b + v.d) * (v.c + v.lead) + v.lead + i % v.b);
    } else { /* two vectors of a single units, c apart, and the second 5 c + d later */
        for (int i = 0; i < 2 * v.a; i++)
            add_unit(&v, e, i / v.a * (5 * v.c + v.d) + i % v.a * v.c);
    }
    v.extent = v.at[v.units - 1] + e->extent;
    if (v.shape == SUBARRAY)
        v.extent = (long)(v.a + v.d) * (v.c + v.lead) * e->extent;
    v.extent += draw(3) ? 0 : e->extent * draw(6);
    return v;
}

static MPI_Datatype view_type(const View *v, const Etype *e)
{
    MPI_Datatype t, u, types[UNITS_MAX];
    MPI_Aint at[UNITS_MAX];
    int ones[UNITS_MAX], places[UNITS_MAX];
    for (int i = 0; i < v->units; i++)
        at[i] = v->at[i], ones[i] = 1, types[i] = e->type, places[i] = (int)(v->at[i] / e->extent);
    if (v->shape == CONTIGUOUS) {
        MPI_Type_contiguous(v->a, e->type, &t);
    } else if (v->shape == VECTOR) {
        MPI_Type_vector(v->a, v->b, v->c, e->type, &t);
    } else if (v->shape == INDEXED) {
        MPI_Type_indexed(v->units, ones, places, e->type, &t);
    } else if (v->shape == STRUCT) {
        MPI_Type_create_struct(v->units, ones, at, types, &t);
    } else if (v->shape == SUBARRAY) {
        MPI_Type_create_subarray(2, (int[]){v->a + v->d, v->c + v->lead}, (int[]){v->a, v->b},
                                 (int[]){v->d, v->lead}, MPI_ORDER_C, e->type, &t);
    } else {
        MPI_Type_vector(v->a, 1, v->c, e->type, &u);
        MPI_Type_create_hvector(2, 1, (MPI_Aint)(5 * v->c + v->d) * e->extent, u, &t);
        MPI_Type_free(&u);
    }
    MPI_Type_create_resized(t, 0, v->extent, &u);
    MPI_Type_free(&t);
    return commit(u);
}

/* Memory: units side by side; with gaps; in reverse, as one element; every second, as one. */
typedef enum { DENSE, GAPS, REVERSED, SPREAD, MEMORIES } Memory;

static long memory_place(const Etype *e, Memory m, int count, long unit)
{
    int extent = e->extent;
    return m == DENSE  ? unit * extent
           : m == GAPS ? unit * (extent + 3)
           : m == SPREAD ? unit * 2 * extent
                         : (count - 1 - unit) * extent;
}

static MPI_Datatype memory_type(const Etype *e, Memory m, int count)
{
    MPI_Datatype t;
    int at[COUNT_MAX + 1];
    for (int i = 0; i < count; i++)
        at[i] = count - 1 - i;
    if (m == DENSE)
        MPI_Type_contiguous(1, e->type, &t);
    else if (m == GAPS)
        MPI_Type_create_resized(e->type, 0, e->extent + 3, &t);
    else if (m == SPREAD)
        MPI_Type_vector(count, 1, 2, e->type, &t);
    else
        MPI_Type_create_indexed_block(count, 1, at, e->type, &t);
    return commit(t);
}

#endif
