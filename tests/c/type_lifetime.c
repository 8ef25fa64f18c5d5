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

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    contents();
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
