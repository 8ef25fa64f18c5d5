/* User-defined operators: non-commutative 2x2 matrix product in rank order, on a struct type, with
 * holes; a commutative one; the operator sees the datatype it was called with and enough elements
 * in total. All reductions, 1 to many ranks, several counts, every root. */
#include "test.h"

typedef struct {
    char pad;
    unsigned m[2][2]; /* unsigned: products wrap, exactly associative */
    char more;
} Matrix;

static MPI_Datatype matrix_type;
static int wrong_type, calls;

static void multiply(void *in, void *inout, int *len, MPI_Datatype *type)
{
    Matrix *a = in, *b = inout; /* result = in op inout, in rank order */
    wrong_type += *type != matrix_type;
    calls++;
    for (int k = 0; k < *len; k++) {
        unsigned r[2][2];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                r[i][j] = a[k].m[i][0] * b[k].m[0][j] + a[k].m[i][1] * b[k].m[1][j];
        memcpy(b[k].m, r, sizeof r);
    }
}

static void maximum(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int *a = in, *b = inout;
    wrong_type += *type != MPI_INT;
    for (int i = 0; i < *len; i++)
        if (a[i] > b[i])
            b[i] = a[i];
}

static Matrix make(int rank, int i)
{
    Matrix x = {1, {{1, (unsigned)(rank + i)}, {(unsigned)(2 * rank + 1), 3u + (unsigned)i}}, 2};
    return x;
}

static Matrix product(int first, int last, int i)
{
    Matrix acc = make(first, i);
    for (int r = first + 1; r <= last; r++) {
        Matrix b = make(r, i);
        int one = 1;
        MPI_Datatype t = matrix_type;
        multiply(&acc, &b, &one, &t);
        acc = b;
    }
    return acc;
}

static void is(const Matrix *b, int n, int last, int from, const char *what)
{
    for (int i = 0; i < n; i++) {
        Matrix want = product(0, last, from + i);
        int ok = memcmp(b[i].m, want.m, sizeof want.m) == 0;
        CHECK(ok, "%s of %d matrices up to rank %d: number %d differs", what, n, last, i);
        CHECK(b[i].pad == 9 && b[i].more == 9, "%s: hole of item %d written", what, i);
        if (!ok)
            return;
    }
}

static void fill(Matrix *b, int n)
{
    for (int i = 0; i < n; i++) {
        b[i] = make(test_rank, i);
        b[i].pad = b[i].more = 9;
    }
}

static void blank(Matrix *b, int n)
{
    memset(b, 9, sizeof *b * (size_t)n);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 2, 5, 33, 300, 4000};
    test_init(&argc, &argv);
    int p = test_size, me = test_rank;
    MPI_Op op, max;
    MPI_Datatype t;
    int bl[1] = {4}, commute = -1;
    MPI_Aint disp[1] = {offsetof(Matrix, m)};
    MPI_Datatype ts[1] = {MPI_UNSIGNED};
    MPI_Type_create_struct(1, bl, disp, ts, &t);
    MPI_Type_create_resized(t, 0, sizeof(Matrix), &matrix_type);
    MPI_Type_commit(&matrix_type);
    MPI_Type_free(&t);
    MPI_Op_create(multiply, 0, &op);
    MPI_Op_create(maximum, 1, &max);
    MPI_Op_commutative(op, &commute);
    CHECK_INT(commute, 0, "Op_commutative of the matrix product");
    MPI_Op_commutative(max, &commute);
    CHECK_INT(commute, 1, "Op_commutative of the maximum");
    MPI_Op_commutative(MPI_SUM, &commute);
    CHECK_INT(commute, 1, "Op_commutative of MPI_SUM");

    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int n = counts[c];
        Matrix *s = test_alloc(sizeof *s * (size_t)(n * p)), *r = test_alloc(sizeof *r * (size_t)(n * p));
        for (int root = 0; root < p; root++) {
            fill(s, n);
            blank(r, n);
            MPI_Reduce(s, r, n, matrix_type, op, root, MPI_COMM_WORLD);
            if (me == root) {
                is(r, n, p - 1, 0, "Reduce");
                MPI_Reduce(MPI_IN_PLACE, s, n, matrix_type, op, root, MPI_COMM_WORLD);
                is(s, n, p - 1, 0, "Reduce in place");
            } else {
                MPI_Reduce(s, NULL, n, matrix_type, op, root, MPI_COMM_WORLD);
            }
        }
        fill(s, n);
        blank(r, n);
        MPI_Allreduce(s, r, n, matrix_type, op, MPI_COMM_WORLD);
        is(r, n, p - 1, 0, "Allreduce");
        blank(r, n);
        MPI_Scan(s, r, n, matrix_type, op, MPI_COMM_WORLD);
        is(r, n, me, 0, "Scan");
        blank(r, n);
        MPI_Exscan(s, r, n, matrix_type, op, MPI_COMM_WORLD);
        if (me)
            is(r, n, me - 1, 0, "Exscan");
        fill(r, n);
        MPI_Allreduce(MPI_IN_PLACE, r, n, matrix_type, op, MPI_COMM_WORLD);
        is(r, n, p - 1, 0, "Allreduce in place");
        fill(s, n * p);
        blank(r, n);
        MPI_Reduce_scatter_block(s, r, n, matrix_type, op, MPI_COMM_WORLD);
        is(r, n, p - 1, me * n, "Reduce_scatter_block");
        int *rc = test_alloc(sizeof(int) * (size_t)p), at = 0;
        for (int i = 0; i < p; i++) {
            rc[i] = i % 2 ? n / 2 : n;
            at += i < me ? rc[i] : 0;
        }
        blank(r, n);
        MPI_Reduce_scatter(s, r, rc, matrix_type, op, MPI_COMM_WORLD);
        is(r, rc[me], p - 1, at, "Reduce_scatter");
        free(rc);
        /* Reduce_local: inout = in op inout */
        if (n) {
            int one = 1;
            MPI_Datatype ty = matrix_type;
            Matrix a = make(3, 0), b = make(5, 0), want = b;
            multiply(&a, &want, &one, &ty);
            MPI_Reduce_local(&a, &b, 1, matrix_type, op);
            CHECK(memcmp(b.m, want.m, sizeof b.m) == 0, "Reduce_local in the wrong order");
        }
        int *x = test_alloc(sizeof(int) * (size_t)(n + 1)), *y = test_alloc(sizeof(int) * (size_t)(n + 1));
        for (int i = 0; i < n; i++)
            x[i] = (me * 7 + i * 3) % 11;
        MPI_Allreduce(x, y, n, MPI_INT, max, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) {
            int want = -1;
            for (int k = 0; k < p; k++)
                if ((k * 7 + i * 3) % 11 > want)
                    want = (k * 7 + i * 3) % 11;
            CHECK_INT(y[i], want, "user-defined maximum");
        }
        free(y);
        free(x);
        free(r);
        free(s);
    }
    CHECK_INT(wrong_type, 0, "calls of the operator with another datatype");
    CHECK(calls > 0, "the operator was never called");
    MPI_Op_free(&op);
    MPI_Op_free(&max);
    CHECK(op == MPI_OP_NULL, "operator handle after Op_free is not null");
    MPI_Type_free(&matrix_type);
    return test_finish();
}
