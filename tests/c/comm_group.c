/* Groups: set operations in MPI's order, ranges, translation, comparison. */
#include "test.h"

enum { P = 8 }; /* a group of the first 8 of a virtual world is built from sub-lists of it */

static void is(MPI_Group g, int n, const int *want, MPI_Group world, const char *what)
{
    int size = -1, got[64], mine[64];
    MPI_Group_size(g, &size);
    CHECK_INT(size, n, what);
    for (int i = 0; i < n; i++)
        mine[i] = i;
    if (size == n && n) {
        MPI_Group_translate_ranks(g, n, mine, world, got);
        for (int i = 0; i < n; i++)
            CHECK(got[i] == want[i], "%s: member %d is %d, expected %d", what, i, got[i], want[i]);
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(P);
    MPI_Group w, a, b, g, h;
    int r = -1;
    MPI_Comm_group(MPI_COMM_WORLD, &w);
    int la[4] = {3, 0, 5, 1}, lb[4] = {6, 1, 3, 7};
    MPI_Group_incl(w, 4, la, &a);
    MPI_Group_incl(w, 4, lb, &b);
    is(a, 4, la, w, "incl");

    int u[] = {3, 0, 5, 1, 6, 7}, i2[] = {3, 1}, df[] = {0, 5};
    MPI_Group_union(a, b, &g);
    is(g, 6, u, w, "union: first, then new ones of the second");
    MPI_Group_free(&g);
    MPI_Group_intersection(a, b, &g);
    is(g, 2, i2, w, "intersection in the first's order");
    MPI_Group_intersection(b, a, &h);
    MPI_Group_compare(g, h, &r);
    CHECK_INT(r, MPI_SIMILAR, "compare of the same members in another order");
    MPI_Group_free(&h);
    MPI_Group_free(&g);
    MPI_Group_difference(a, b, &g);
    is(g, 2, df, w, "difference");
    MPI_Group_free(&g);
    MPI_Group_difference(a, a, &g);
    MPI_Group_compare(g, MPI_GROUP_EMPTY, &r);
    CHECK_INT(r, MPI_IDENT, "empty difference against MPI_GROUP_EMPTY");
    if (g != MPI_GROUP_EMPTY)
        MPI_Group_free(&g);

    MPI_Group_compare(a, b, &r);
    CHECK_INT(r, MPI_UNEQUAL, "compare of unequal groups");
    MPI_Group_compare(a, a, &r);
    CHECK_INT(r, MPI_IDENT, "compare with itself");

    int ex[2] = {2, 0}, left[] = {0, 1};
    MPI_Group_excl(a, 2, ex, &g); /* drops 5 and 3 */
    is(g, 2, left, w, "excl");
    MPI_Group_free(&g);
    MPI_Group_excl(w, 0, NULL, &g);
    MPI_Group_compare(g, w, &r);
    CHECK_INT(r, MPI_IDENT, "excl of nothing");
    MPI_Group_free(&g);

    int ranges[3][3] = {{7, 5, -1}, {0, 4, 2}, {3, 3, 1}};
    int ri[] = {7, 6, 5, 0, 2, 4, 3}, re[] = {1};
    MPI_Group_range_incl(w, 3, ranges, &g);
    is(g, 7, ri, w, "range_incl");
    MPI_Group_free(&g);
    MPI_Group_range_excl(w, 3, ranges, &g);
    int n = -1, first = 0, at = -1;
    MPI_Group_size(g, &n);
    CHECK_INT(n, test_size - 7, "size of range_excl");
    MPI_Group_translate_ranks(g, 1, &first, w, &at);
    CHECK_INT(at, re[0], "first member of range_excl");
    MPI_Group_free(&g);

    int from[4] = {0, 1, MPI_PROC_NULL, 3}, to[4];
    MPI_Group_translate_ranks(a, 4, from, b, to); /* 3, 0, null, 1 */
    CHECK_INT(to[0], 2, "translate 3");
    CHECK_INT(to[1], MPI_UNDEFINED, "translate 0, which the other group lacks");
    CHECK_INT(to[2], MPI_PROC_NULL, "translate MPI_PROC_NULL");
    CHECK_INT(to[3], 1, "translate 1");

    MPI_Group_rank(a, &r);
    int want = MPI_UNDEFINED;
    for (int i = 0; i < 4; i++)
        if (la[i] == test_rank)
            want = i;
    CHECK_INT(r, want, "Group_rank");
    MPI_Group_size(MPI_GROUP_EMPTY, &n);
    CHECK_INT(n, 0, "size of MPI_GROUP_EMPTY");
    MPI_Group_free(&a);
    MPI_Group_free(&b);
    MPI_Group_free(&w);
    CHECK(w == MPI_GROUP_NULL, "handle after Group_free is not null");
    return test_finish();
}
