/* Layouts of an item of three ints, with the place of each int written down by hand, so that checks
 * do not rely on the library's own pack. Used by the collective tests. */
#ifndef LAYOUTS_H
#define LAYOUTS_H
#include "test.h"

enum { ITEM = 3, LAYOUTS = 3, UNTOUCHED = -99 };

typedef struct {
    const char *name;
    MPI_Datatype type;
    int extent; /* in ints */
    int place[ITEM];
} Layout;

static Layout layouts[LAYOUTS] = {
    {"contiguous", MPI_DATATYPE_NULL, 3, {0, 1, 2}},
    {"strided", MPI_DATATYPE_NULL, 7, {1, 3, 5}},
    {"reversed", MPI_DATATYPE_NULL, 4, {3, 1, 0}},
};

static void layouts_make(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        MPI_Datatype t;
        MPI_Type_create_indexed_block(ITEM, 1, layouts[i].place, MPI_INT, &t);
        MPI_Type_create_resized(t, 0, layouts[i].extent * (MPI_Aint)sizeof(int), &layouts[i].type);
        MPI_Type_commit(&layouts[i].type);
        MPI_Type_free(&t);
    }
}

static void layouts_free(void)
{
    for (int i = 0; i < LAYOUTS; i++)
        MPI_Type_free(&layouts[i].type);
}

/* A buffer of `items` items, all ints UNTOUCHED. */
static TEST_UNUSED int *lay_alloc(const Layout *l, int items)
{
    size_t n = (size_t)(items > 0 ? items : 1) * (size_t)l->extent;
    int *b = test_alloc(n * sizeof *b);
    for (size_t i = 0; i < n; i++)
        b[i] = UNTOUCHED;
    return b;
}

/* What rank `from` sends to rank `to` as int `k`. */
static TEST_UNUSED int lay_value(int from, int to, int k)
{
    return from * 1000003 + to * 5003 + k * 7;
}

static TEST_UNUSED void lay_put(const Layout *l, int *b, int first, int n, int from, int to)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < ITEM; k++)
            b[(first + i) * l->extent + l->place[k]] = lay_value(from, to, i * ITEM + k);
}

/* Checks items first .. first + n - 1; returns the number of ints that were checked. */
static TEST_UNUSED int lay_check(const Layout *l, const int *b, int first, int n, int from, int to,
                                 const char *what)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < ITEM; k++) {
            int got = b[(first + i) * l->extent + l->place[k]];
            int want = lay_value(from, to, i * ITEM + k);
            CHECK(got == want, "%s (%s): part of rank %d: item %d int %d is %d, expected %d", what,
                  l->name, from, i, k, got, want);
            if (got != want)
                return n * ITEM;
        }
    return n * ITEM;
}

/* Checks that exactly `written` ints of the buffer of `items` items were written. */
static TEST_UNUSED void lay_touched(const Layout *l, const int *b, int items, int written,
                                    const char *what)
{
    int touched = 0;
    for (int i = 0; i < items * l->extent; i++)
        touched += b[i] != UNTOUCHED;
    CHECK(touched == written, "%s (%s): %d ints written, expected %d", what, l->name, touched,
          written);
}

#endif
