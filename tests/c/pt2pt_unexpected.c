/* Ten thousand unexpected messages from every rank to rank 0, received in the reverse order of
 * their tags: the queue must hold them, and finding one must not cost a walk through all. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    int n = argc > 1 ? atoi(argv[1]) : 10000;
    int payload[16];
    if (test_rank) {
        MPI_Request *r = test_alloc((size_t)n * sizeof *r);
        int(*out)[16] = test_alloc((size_t)n * sizeof *out);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < 16; j++)
                out[i][j] = test_rank * 1000003 + i * 17 + j;
            MPI_Isend(out[i], i % 17, MPI_INT, 0, i, MPI_COMM_WORLD, &r[i]);
        }
        MPI_Send(NULL, 0, MPI_INT, 0, n, MPI_COMM_WORLD); /* after all of them, by MPI's order */
        MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
        free(out);
        free(r);
    } else {
        MPI_Status st;
        for (int s = 1; s < test_size; s++)
            MPI_Recv(NULL, 0, MPI_INT, s, n, MPI_COMM_WORLD, &st);
        /* now all n of each rank are unexpected */
        for (int s = 1; s < test_size; s++)
            for (int i = n - 1; i >= 0; i--) {
                int count = -1;
                MPI_Recv(payload, 16, MPI_INT, i % 2 ? s : MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &st);
                MPI_Get_count(&st, MPI_INT, &count);
                CHECK_INT(count, i % 17, "count of an unexpected message");
                if (i % 2)
                    CHECK_INT(st.MPI_SOURCE, s, "source of an unexpected message");
                for (int j = 0; j < count; j++)
                    CHECK_INT(payload[j], st.MPI_SOURCE * 1000003 + i * 17 + j, "payload");
            }
        int flag = -1;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &st);
        CHECK_INT(flag, 0, "messages left over");
    }
    return test_finish();
}
