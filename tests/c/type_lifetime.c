/* A datatype freed while a message uses it, or while another type is built on it, stays alive for
 * them; get_envelope and get_contents give back how a type was made; many types in a loop. */
#include "test.h"

static void contents(void)
{
    MPI_Datatype t, inner, ts[4];
    int ni, na, nd, comb, ints[16];
    MPI_Aint as[16];
    MPI_Type_get_envelope(MPI_INT, &ni, &na, &nd, &comb);
    CHECK_INT(comb, MPI_COMBINER_NAMED, "combiner of MPI_INT");
    MPI_Type_vector(3, 2, 5, MPI_FLOAT, &inner);
    MPI_Type_get_envelope(inner, &ni, &na, &nd, &comb);
    CHECK_INT(comb, MPI_COMBINER_VECTOR, "combiner of a vector");
    CHECK(ni == 3 && na == 0 && nd == 1, "envelope of a vector: %d %d %d", ni, na, nd);
    MPI_Type_get_contents(inner, ni, na, nd, ints, as, ts);
    CHECK(ints[0] == 3 && ints[1] == 2 && ints[2] == 5 && ts[0] == MPI_FLOAT,
          "contents of a vector: %d %d %d", ints[0], ints[1], ints[2]);
    int bl[2] = {4, 1};
    MPI_Aint d[2] = {8, 256};
    MPI_Datatype members[2] = {MPI_INT, inner};
    MPI_Type_create_struct(2, bl, d, members, &t);
    MPI_Type_free(&inner);
    MPI_Type_get_envelope(t, &ni, &na, &nd, &comb);
    CHECK_INT(comb, MPI_COMBINER_STRUCT, "combiner of a struct");
    CHECK(ni == 3 && na == 2 && nd == 2, "envelope of a struct: %d %d %d", ni, na, nd);
    MPI_Type_get_contents(t, ni, na, nd, ints, as, ts);
    CHECK(ints[0] == 2 && ints[1] == 4 && ints[2] == 1 && as[0] == 8 && as[1] == 256,
          "contents of a struct");
    CHECK(ts[0] == MPI_INT, "first member of the struct");
    MPI_Type_get_envelope(ts[1], &ni, &na, &nd, &comb);
    CHECK_INT(comb, MPI_COMBINER_VECTOR, "combiner of the second member");
    MPI_Type_free(&ts[1]);
    MPI_Type_free(&t);
}

/* What a constructor was called with: integers, addresses, counts and datatypes, each with its
 * number. */
typedef struct {
    int combiner, integers[12], addresses[8];
    MPI_Count counts[8];
    int ni, na, nc;
} Made;

/* The large query gives what the large constructor got, and the plain one refuses (MPI 5.0,
 * 5.1.13), though all counts fit an int. Plain constructors answer to both. */
static void check_made(MPI_Datatype t, const Made *made, const char *what)
{
    int comb = -1, ints[12], pi, pa, pd;
    MPI_Count ni = -1, na = -1, nc = -1, nd = -1, counts[8];
    MPI_Aint addresses[8];
    MPI_Datatype types[2];
    CHECK_INT(MPI_Type_get_envelope_c(t, &ni, &na, &nc, &nd, &comb), MPI_SUCCESS, what);
    CHECK_INT(comb, made->combiner, what);
    CHECK(ni == made->ni && na == made->na && nc == made->nc && nd == 1, "%s: envelope of %lld, %lld, %lld, %lld", what,
          (long long)ni, (long long)na, (long long)nc, (long long)nd);
    if (ni != made->ni || na != made->na || nc != made->nc || nd != 1)
        return;
    CHECK_INT(MPI_Type_get_contents_c(t, ni, na, nc, nd, ints, addresses, counts, types), MPI_SUCCESS, what);
    for (int i = 0; i < made->ni; i++)
        CHECK_INT(ints[i], made->integers[i], what);
    for (int i = 0; i < made->na; i++)
        CHECK_INT(addresses[i], made->addresses[i], what);
    for (int i = 0; i < made->nc; i++)
        CHECK_INT(counts[i], made->counts[i], what);
    int code = MPI_Type_get_envelope(t, &pi, &pa, &pd, &comb);
    if (made->nc == 0)
        CHECK(code == MPI_SUCCESS && pi == ni && pa == na && pd == nd, "%s: plain envelope of %d, %d, %d", what, pi, pa, pd);
    else
        CHECK_CLASS(code, MPI_ERR_TYPE, what);
    if (made->nc > 0)
        CHECK_CLASS(MPI_Type_get_contents(t, 12, 8, 2, ints, addresses, types), MPI_ERR_TYPE, what);
    MPI_Type_free(&t);
}

static void large_forms(void)
{
    MPI_Datatype t;
    MPI_Count two[2] = {1, 2}, at[2] = {0, 16}, sizes[2] = {8, 6}, subs[2] = {2, 3}, starts[2] = {1, 2};
    MPI_Datatype ints[1] = {MPI_INT};
    int distribs[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, dargs[2] = {4, MPI_DISTRIBUTE_DFLT_DARG}, psizes[2] = {2, 1};
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_contiguous_c(3, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_CONTIGUOUS, {0}, {0}, {3}, 0, 0, 1}, "MPI_Type_contiguous_c");
    MPI_Type_vector_c(3, 2, 5, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_VECTOR, {0}, {0}, {3, 2, 5}, 0, 0, 3}, "MPI_Type_vector_c");
    MPI_Type_create_hvector_c(3, 2, 40, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_HVECTOR, {0}, {0}, {3, 2, 40}, 0, 0, 3}, "MPI_Type_create_hvector_c");
    MPI_Type_indexed_c(2, two, at, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_INDEXED, {0}, {0}, {2, 1, 2, 0, 16}, 0, 0, 5}, "MPI_Type_indexed_c");
    MPI_Type_create_hindexed_c(2, two, at, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_HINDEXED, {0}, {0}, {2, 1, 2, 0, 16}, 0, 0, 5}, "MPI_Type_create_hindexed_c");
    MPI_Type_create_indexed_block_c(2, 3, at, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_INDEXED_BLOCK, {0}, {0}, {2, 3, 0, 16}, 0, 0, 4}, "MPI_Type_create_indexed_block_c");
    MPI_Type_create_hindexed_block_c(2, 3, at, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_HINDEXED_BLOCK, {0}, {0}, {2, 3, 0, 16}, 0, 0, 4}, "MPI_Type_create_hindexed_block_c");
    MPI_Type_create_struct_c(1, two, at, ints, &t);
    check_made(t, &(Made){MPI_COMBINER_STRUCT, {0}, {0}, {1, 1, 0}, 0, 0, 3}, "MPI_Type_create_struct_c");
    MPI_Type_create_resized_c(MPI_INT, -4, 24, &t);
    check_made(t, &(Made){MPI_COMBINER_RESIZED, {0}, {0}, {-4, 24}, 0, 0, 2}, "MPI_Type_create_resized_c");
    MPI_Type_create_subarray_c(2, sizes, subs, starts, MPI_ORDER_C, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_SUBARRAY, {2, MPI_ORDER_C}, {0}, {8, 6, 2, 3, 1, 2}, 2, 0, 6}, "MPI_Type_create_subarray_c");
    MPI_Type_create_darray_c(2, 1, 2, sizes, distribs, dargs, psizes, MPI_ORDER_FORTRAN, MPI_INT, &t);
    check_made(t,
               &(Made){MPI_COMBINER_DARRAY,
                       {2, 1, 2, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, 4, MPI_DISTRIBUTE_DFLT_DARG, 2, 1, MPI_ORDER_FORTRAN},
                       {0},
                       {8, 6},
                       10,
                       0,
                       2},
               "MPI_Type_create_darray_c");
    MPI_Type_create_hvector(3, 2, 40, MPI_INT, &t);
    check_made(t, &(Made){MPI_COMBINER_HVECTOR, {3, 2}, {40}, {0}, 2, 1, 0}, "MPI_Type_create_hvector");
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    contents();
    large_forms();
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    enum { N = 50000 };
    static int out[2 * N], in[2 * N];
    for (int round = 0; round < 20; round++) {
        MPI_Datatype v, w;
        MPI_Request r[2];
        int n = round % 2 ? N : 40;
        for (int i = 0; i < 2 * n; i++) {
            out[i] = i + round;
            in[i] = -1;
        }
        MPI_Type_vector(n / 2, 1, 2, MPI_INT, &v);
        MPI_Type_contiguous(2, v, &w); /* extent of v ends on its last int: items touch */
        MPI_Type_commit(&w);
        MPI_Type_free(&v);
        MPI_Irecv(in, 1, w, left, round, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, 1, w, right, round, MPI_COMM_WORLD, &r[1]);
        MPI_Type_free(&w);
        /* handles are reused: a new type must not disturb the messages on their way */
        MPI_Type_contiguous(7, MPI_CHAR, &v);
        MPI_Type_commit(&v);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        MPI_Type_free(&v);
        int half = n / 2;
        for (int k = 0; k < half; k++) {
            CHECK_INT(in[2 * k], out[2 * k], "first half");
            CHECK_INT(in[n - 1 + 2 * k], out[n - 1 + 2 * k], "second half");
        }
    }
    for (int i = 0; i < 20000; i++) {
        MPI_Datatype t;
        MPI_Type_vector(3, 1, 2 + i % 5, MPI_INT, &t);
        MPI_Type_commit(&t);
        MPI_Type_free(&t);
    }
    return test_finish();
}
