/* Cartesian topologies and MPI_Dims_create: grids of every shape that the ranks fill, slices,
 * shifts, reordering. */
#include "test.h"

enum { MAXDIMS = 4 };

/* The rank at coordinates, or MPI_PROC_NULL; row-major. */
static int at(int n, const int *dims, const int *periods, const int *coords)
{
    int rank = 0;
    for (int i = 0; i < n; i++) {
        int x = coords[i];
        if (periods[i])
            x = (x % dims[i] + dims[i]) % dims[i];
        if (x < 0 || x >= dims[i])
            return MPI_PROC_NULL;
        rank = rank * dims[i] + x;
    }
    return rank;
}

static void check_shifts(MPI_Comm cart, int n, const int *dims, const int *periods)
{
    int coords[MAXDIMS], rank;
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_coords(cart, rank, n, coords);
    for (int d = 0; d < n; d++)
        for (int disp = -3; disp <= 3; disp++) {
            int moved[MAXDIMS], source = -77, dest = -77, got = -1;
            MPI_Cart_shift(cart, d, disp, &source, &dest);
            memcpy(moved, coords, sizeof moved);
            moved[d] = coords[d] + disp;
            CHECK_INT(dest, at(n, dims, periods, moved), "destination of a shift");
            moved[d] = coords[d] - disp;
            CHECK_INT(source, at(n, dims, periods, moved), "source of a shift");
            MPI_Sendrecv(&rank, 1, MPI_INT, dest, d, &got, 1, MPI_INT, source, d, cart,
                         MPI_STATUS_IGNORE);
            CHECK_INT(got, source == MPI_PROC_NULL ? -1 : source, "what a shift brings");
        }
}

static void check_slices(MPI_Comm cart, int n, const int *dims, const int *periods)
{
    int coords[MAXDIMS], rank;
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_coords(cart, rank, n, coords);
    for (int mask = 0; mask < 1 << n; mask++) {
        int remain[MAXDIMS], sd[MAXDIMS], sp[MAXDIMS], sc[MAXDIMS], m = 0, ndims = -1, size, where, kind;
        int expected = 1, *all;
        MPI_Comm sub = MPI_COMM_NULL;
        for (int i = 0; i < n; i++)
            remain[i] = mask >> i & 1;
        MPI_Cart_sub(cart, remain, &sub);
        CHECK(sub != MPI_COMM_NULL, "no slice for mask %d", mask);
        MPI_Topo_test(sub, &kind);
        CHECK_INT(kind, MPI_CART, "topology of a slice");
        MPI_Cartdim_get(sub, &ndims);
        MPI_Cart_get(sub, MAXDIMS, sd, sp, sc);
        for (int i = 0; i < n; i++)
            if (remain[i]) {
                CHECK_INT(sd[m], dims[i], "length in a slice");
                CHECK_INT(!sp[m], !periods[i], "ring in a slice");
                CHECK_INT(sc[m], coords[i], "coordinate in a slice");
                expected *= dims[i];
                m++;
            }
        CHECK_INT(ndims, m, "dimensions of a slice");
        MPI_Comm_size(sub, &size);
        CHECK_INT(size, expected, "size of a slice");
        MPI_Comm_rank(sub, &where);
        CHECK_INT(where, at(m, sd, sp, sc), "rank in a slice");
        all = test_alloc((size_t)size * MAXDIMS * sizeof *all);
        MPI_Allgather(coords, MAXDIMS, MPI_INT, all, MAXDIMS, MPI_INT, sub);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                if (!remain[i])
                    CHECK_INT(all[r * MAXDIMS + i], coords[i], "coordinate that all of a slice share");
        free(all);
        MPI_Comm_free(&sub);
    }
}

static void check_grid(int n, const int *dims, const int *periods, int reorder)
{
    int size = 1, kind, ndims = -1, rank, result, gd[MAXDIMS], gp[MAXDIMS], gc[MAXDIMS], map = -7;
    MPI_Comm cart = MPI_COMM_NULL, copy, other;
    for (int i = 0; i < n; i++)
        size *= dims[i];
    MPI_Cart_create(MPI_COMM_WORLD, n, dims, periods, reorder, &cart);
    MPI_Cart_map(MPI_COMM_WORLD, n, dims, periods, &map);
    if (cart == MPI_COMM_NULL) {
        CHECK(test_rank >= size, "no place in a grid of %d", size);
        CHECK_INT(map, MPI_UNDEFINED, "Cart_map outside the grid");
        return;
    }
    MPI_Comm_rank(cart, &rank);
    if (reorder)
        CHECK_INT(map, rank, "Cart_map");
    else
        CHECK_INT(rank, test_rank, "rank without reordering");
    MPI_Comm_size(cart, &ndims);
    CHECK_INT(ndims, size, "size of the grid");
    MPI_Topo_test(cart, &kind);
    CHECK_INT(kind, MPI_CART, "Topo_test");
    MPI_Cartdim_get(cart, &ndims);
    CHECK_INT(ndims, n, "Cartdim_get");
    MPI_Cart_get(cart, MAXDIMS, gd, gp, gc);
    for (int i = 0; i < n; i++) {
        CHECK_INT(gd[i], dims[i], "length");
        CHECK_INT(!gp[i], !periods[i], "ring");
    }
    for (int r = 0; r < size; r++) {
        int coords[MAXDIMS], back = -1;
        MPI_Cart_coords(cart, r, n, coords);
        CHECK_INT(at(n, dims, periods, coords), r, "row-major rank");
        MPI_Cart_rank(cart, coords, &back);
        CHECK_INT(back, r, "Cart_rank");
        for (int i = 0; i < n; i++) {
            if (r == rank)
                CHECK_INT(gc[i], coords[i], "own coordinate");
            if (periods[i]) {
                coords[i] -= 3 * dims[i];
                MPI_Cart_rank(cart, coords, &back);
                CHECK_INT(back, r, "Cart_rank around a ring");
                coords[i] += 3 * dims[i];
            }
        }
    }
    if (size == test_size) {
        MPI_Comm_compare(cart, MPI_COMM_WORLD, &result);
        CHECK(result == MPI_CONGRUENT || (reorder && result == MPI_SIMILAR), "compare says %d", result);
    }
    check_shifts(cart, n, dims, periods);
    check_slices(cart, n, dims, periods);
    MPI_Comm_dup(cart, &copy);
    MPI_Topo_test(copy, &kind);
    CHECK_INT(kind, MPI_CART, "topology of a duplicate");
    MPI_Comm_free(&cart);
    check_shifts(copy, n, dims, periods);
    MPI_Comm_split(copy, 0, 0, &other);
    MPI_Topo_test(other, &kind);
    CHECK_INT(kind, MPI_UNDEFINED, "topology after split");
    MPI_Comm_free(&other);
    MPI_Comm_free(&copy);
}

static void check_dims(int nodes, int n, const int *given)
{
    int dims[MAXDIMS], product = 1, last = 0;
    memcpy(dims, given, (size_t)n * sizeof *dims);
    MPI_Dims_create(nodes, n, dims);
    for (int i = 0; i < n; i++) {
        product *= dims[i];
        if (given[i]) {
            CHECK_INT(dims[i], given[i], "a length that was given");
        } else {
            CHECK(!last || dims[i] <= last, "lengths rise from %d to %d", last, dims[i]);
            last = dims[i];
        }
    }
    CHECK_INT(product, nodes, "product of the lengths");
}

static void dims_create(void)
{
    static const struct {
        int nodes, n, want[3];
    } known[] = {{6, 2, {3, 2, 0}}, {7, 2, {7, 1, 0}}, {16, 2, {4, 4, 0}}, {12, 2, {4, 3, 0}},
                 {24, 3, {4, 3, 2}}, {27, 3, {3, 3, 3}}, {1, 3, {1, 1, 1}}, {1024, 2, {32, 32, 0}}};
    int fixed[3] = {0, 3, 0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int dims[3] = {0, 0, 0};
        MPI_Dims_create(known[i].nodes, known[i].n, dims);
        for (int d = 0; d < known[i].n; d++)
            CHECK(dims[d] == known[i].want[d], "%d nodes: dims[%d] = %d", known[i].nodes, d, dims[d]);
    }
    for (int nodes = 1; nodes <= 200; nodes++)
        for (int n = 1; n <= MAXDIMS; n++) {
            int open[MAXDIMS] = {0, 0, 0, 0};
            check_dims(nodes, n, open);
            check_dims(nodes * 3, 3, fixed);
        }
    check_dims(6, 3, fixed);
}

int main(int argc, char **argv)
{
    int kind, none = MPI_UNDEFINED;
    test_init(&argc, &argv);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    CHECK_INT(kind, none, "topology of MPI_COMM_WORLD");
    dims_create();
    for (int size = test_size > 1 ? test_size - 1 : 1; size <= test_size; size++)
        for (int n = 1; n <= MAXDIMS; n++)
            for (int mask = 0; mask < 1 << n; mask++)
                for (int reorder = 0; reorder < 2; reorder++) {
                    int dims[MAXDIMS] = {0}, periods[MAXDIMS] = {0};
                    MPI_Dims_create(size, n, dims);
                    for (int i = 0; i < n; i++)
                        periods[i] = mask >> i & 1;
                    check_grid(n, dims, periods, reorder);
                }
    check_grid(0, NULL, NULL, 0);
    return test_finish();
}
