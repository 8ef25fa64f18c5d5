/* MPI_Sendrecv and MPI_Sendrecv_replace: rings both ways, differing sizes and types, MPI_PROC_NULL
 * on either side, itself, and large messages in a cycle (which must not deadlock). */
#include "test.h"

static void ring(size_t n)
{
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    unsigned char *out = test_alloc(n), *in = test_alloc(n);
    MPI_Status st;
    int count;
    test_fill(out, n, (uint64_t)test_rank);
    memset(in, 0, n);
    MPI_Sendrecv(out, (int)n, MPI_BYTE, right, 5, in, (int)n, MPI_BYTE, left, 5, MPI_COMM_WORLD,
                 &st);
    MPI_Get_count(&st, MPI_BYTE, &count);
    CHECK_INT(count, n, "count of Sendrecv");
    CHECK_INT(st.MPI_SOURCE, left, "source of Sendrecv");
    CHECK(test_verify(in, n, (uint64_t)left) == n, "ring of %zu bytes: wrong data", n);
    /* all the way round in place: everything comes home */
    for (int i = 0; i < test_size; i++)
        MPI_Sendrecv_replace(out, (int)n, MPI_BYTE, left, 6, right, 6, MPI_COMM_WORLD, &st);
    CHECK(test_verify(out, n, (uint64_t)test_rank) == n, "replace ring of %zu bytes: wrong data", n);
    free(out);
    free(in);
}

static void proc_null(void)
{
    MPI_Status st;
    int x = 41, y = 42, count = -1, flag = 0;
    MPI_Request r[2];
    memset(&st, 0x55, sizeof st);
    MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &st);
    MPI_Get_count(&st, MPI_INT, &count);
    CHECK_INT(x, 41, "buffer after receive from MPI_PROC_NULL");
    CHECK_INT(count, 0, "count from MPI_PROC_NULL");
    CHECK_INT(st.MPI_SOURCE, MPI_PROC_NULL, "source from MPI_PROC_NULL");
    CHECK_INT(st.MPI_TAG, MPI_ANY_TAG, "tag from MPI_PROC_NULL");
    MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
    MPI_Ssend(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
    MPI_Rsend(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
    MPI_Issend(&x, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(&y, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    CHECK_INT(y, 42, "buffer after Irecv from MPI_PROC_NULL");
    MPI_Probe(MPI_PROC_NULL, 9, MPI_COMM_WORLD, &st);
    CHECK_INT(st.MPI_SOURCE, MPI_PROC_NULL, "source of Probe(MPI_PROC_NULL)");
    MPI_Iprobe(MPI_PROC_NULL, 9, MPI_COMM_WORLD, &flag, &st);
    CHECK(flag, "Iprobe(MPI_PROC_NULL) says there is nothing");
    /* an open chain: the ends have MPI_PROC_NULL for a neighbour */
    int left = test_rank ? test_rank - 1 : MPI_PROC_NULL;
    int right = test_rank + 1 < test_size ? test_rank + 1 : MPI_PROC_NULL;
    int got = -1, token = test_rank;
    MPI_Sendrecv(&token, 1, MPI_INT, right, 4, &got, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &st);
    CHECK_INT(got, test_rank ? left : -1, "value passed along the chain");
    MPI_Sendrecv_replace(&token, 1, MPI_INT, left, 4, right, 4, MPI_COMM_WORLD, &st);
    CHECK_INT(token, right == MPI_PROC_NULL ? test_rank : right, "value passed back in place");
}

enum { WAIT, TEST, WAITALL, TESTALL, WAITANY, TESTANY, WAITSOME, TESTSOME, FORMS };

/* Receives from MPI_PROC_NULL complete in every form, many at a time, with their status. */
static void proc_null_requests(void)
{
    enum { N = 3 };
    for (int form = 0; form < FORMS; form++) {
        MPI_Request r[N];
        MPI_Status st[N];
        int y = 42, flag = 1, at[N] = {0, 1, 2}, out = N, count = -1;
        for (int i = 0; i < N; i++)
            MPI_Irecv(&y, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &r[i]);
        CHECK(r[0] != MPI_REQUEST_NULL, "Irecv from MPI_PROC_NULL gave MPI_REQUEST_NULL");
        memset(st, 0x55, sizeof st);
        MPI_Cancel(&r[0]);
        MPI_Request_get_status(r[0], &flag, &st[0]);
        CHECK(flag, "get_status: a receive from MPI_PROC_NULL is incomplete");
        CHECK_INT(st[0].MPI_SOURCE, MPI_PROC_NULL, "source by get_status");
        memset(st, 0x55, sizeof st);
        for (int i = 0; i < N && form <= TEST; i++)
            if (form == WAIT)
                MPI_Wait(&r[i], &st[i]);
            else
                MPI_Test(&r[i], &flag, &st[i]);
        for (int i = 0; i < N && (form == WAITANY || form == TESTANY); i++)
            if (form == WAITANY)
                MPI_Waitany(N, r, &at[i], &st[i]);
            else
                MPI_Testany(N, r, &at[i], &flag, &st[i]);
        if (form == WAITALL)
            MPI_Waitall(N, r, st);
        if (form == TESTALL)
            MPI_Testall(N, r, &flag, st);
        if (form == WAITSOME)
            MPI_Waitsome(N, r, &out, at, st);
        if (form == TESTSOME)
            MPI_Testsome(N, r, &out, at, st);
        CHECK(flag, "form %d: a receive from MPI_PROC_NULL is incomplete", form);
        CHECK_INT(out, N, "receives from MPI_PROC_NULL that are complete");
        for (int i = 0; i < N; i++) {
            int cancelled = 1;
            CHECK_INT(at[i], i, "index");
            CHECK(r[i] == MPI_REQUEST_NULL, "form %d: request %d stays", form, i);
            CHECK_INT(st[i].MPI_SOURCE, MPI_PROC_NULL, "source of Irecv(MPI_PROC_NULL)");
            CHECK_INT(st[i].MPI_TAG, MPI_ANY_TAG, "tag of Irecv(MPI_PROC_NULL)");
            MPI_Get_count(&st[i], MPI_INT, &count);
            CHECK_INT(count, 0, "count of Irecv(MPI_PROC_NULL)");
            MPI_Test_cancelled(&st[i], &cancelled);
            CHECK(!cancelled, "form %d: a receive from MPI_PROC_NULL was cancelled", form);
        }
        CHECK_INT(y, 42, "buffer after Irecv from MPI_PROC_NULL");
        /* one is freed, the other stays */
        MPI_Irecv(&y, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &r[0]);
        MPI_Irecv(&y, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &r[1]);
        MPI_Request_free(&r[0]);
        CHECK(r[0] == MPI_REQUEST_NULL, "Request_free left the handle");
        MPI_Wait(&r[1], &st[1]);
        CHECK_INT(st[1].MPI_SOURCE, MPI_PROC_NULL, "source after another was freed");
    }
}

/* A column of a matrix goes out, a row comes in; and a replace with a strided type. */
static void layouts(void)
{
    enum { N = 61 };
    static double m[N][N];
    double row[N];
    MPI_Datatype column;
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            m[i][j] = 10000.0 * test_rank + 100 * i + j;
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(&m[0][3], 1, column, right, 1, row, N, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++)
        CHECK(row[i] == 10000.0 * left + 100 * i + 3, "row[%d] is %g", i, row[i]);
    MPI_Sendrecv_replace(&m[0][5], 1, column, right, 2, left, 2, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) {
        CHECK(m[i][5] == 10000.0 * left + 100 * i + 5, "column element %d is %g", i, m[i][5]);
        CHECK(m[i][6] == 10000.0 * test_rank + 100 * i + 6, "neighbour column touched at %d", i);
    }
    MPI_Type_free(&column);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 1, 7, 64, 1000, 4096, 8191, 32768, 65537, 1000003, 4 << 20};
    test_init(&argc, &argv);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ring(sizes[i]);
    proc_null();
    proc_null_requests();
    layouts();
    return test_finish();
}
