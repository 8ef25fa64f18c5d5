/* A rank that talks to itself: every size, posted before and after, on WORLD and SELF, strided. */
#include "test.h"

static void exchange(MPI_Comm comm, int me, size_t n, int recv_first)
{
    unsigned char *out = test_alloc(n), *in = test_alloc(n);
    MPI_Request r[2];
    MPI_Status st[2];
    int count = -1;
    test_fill(out, n, n);
    memset(in, 0, n);
    if (recv_first)
        MPI_Irecv(in, (int)n, MPI_BYTE, me, 1, comm, &r[0]);
    MPI_Isend(out, (int)n, MPI_BYTE, me, 1, comm, &r[1]);
    if (!recv_first)
        MPI_Irecv(in, (int)n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &r[0]);
    MPI_Waitall(2, r, st);
    MPI_Get_count(&st[0], MPI_BYTE, &count);
    CHECK_INT(count, n, "count from itself");
    CHECK_INT(st[0].MPI_SOURCE, me, "source of a message from itself");
    CHECK(test_verify(in, n, n) == n, "self message of %zu bytes differs", n);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    size_t sizes[80];
    int n = test_sizes(sizes, 80, 1 << 20);
    for (int i = 0; i < n; i++)
        for (int first = 0; first < 2; first++) {
            exchange(MPI_COMM_WORLD, test_rank, sizes[i], first);
            exchange(MPI_COMM_SELF, 0, sizes[i], first);
        }
    /* transpose through a message to itself: a column type out, rows in */
    enum { N = 200 };
    static int a[N][N], b[N][N];
    MPI_Datatype col, cols;
    MPI_Request r;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i][j] = i * N + j;
    MPI_Type_vector(N, 1, N, MPI_INT, &col);
    MPI_Type_create_resized(col, 0, sizeof(int), &cols);
    MPI_Type_commit(&cols);
    MPI_Irecv(b, N * N, MPI_INT, test_rank, 2, MPI_COMM_WORLD, &r);
    MPI_Ssend(a, N, cols, test_rank, 2, MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            CHECK_INT(b[i][j], a[j][i], "transposed element");
    MPI_Type_free(&col);
    MPI_Type_free(&cols);
    MPI_Sendrecv_replace(a, N * N, MPI_INT, 0, 3, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK_INT(a[N - 1][N - 1], N * N - 1, "Sendrecv_replace with itself");
    return test_finish();
}
