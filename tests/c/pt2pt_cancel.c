/* MPI_Cancel of receives: a cancelled receive takes no message, one that matched is delivered. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int peer = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    int x = -1, y = -1, cancelled = -1, flag = 0;
    MPI_Request r, r2;
    MPI_Status st;

    /* never matched */
    MPI_Irecv(&x, 1, MPI_INT, from, 77, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &st);
    MPI_Test_cancelled(&st, &cancelled);
    CHECK_INT(cancelled, 1, "Test_cancelled of an unmatched receive");
    CHECK(r == MPI_REQUEST_NULL, "request not null");

    /* the first of two equal receives is cancelled: the message goes to the second */
    MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 78, MPI_COMM_WORLD, &r);
    MPI_Irecv(&y, 1, MPI_INT, from, 78, MPI_COMM_WORLD, &r2);
    MPI_Cancel(&r);
    do
        MPI_Test(&r, &flag, &st);
    while (!flag);
    MPI_Test_cancelled(&st, &cancelled);
    CHECK_INT(cancelled, 1, "Test_cancelled of the first receive");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&test_rank, 1, MPI_INT, peer, 78, MPI_COMM_WORLD);
    MPI_Wait(&r2, &st);
    MPI_Test_cancelled(&st, &cancelled);
    CHECK_INT(cancelled, 0, "Test_cancelled of the second receive");
    CHECK_INT(x, -1, "buffer of the cancelled receive");
    CHECK_INT(y, from, "buffer of the second receive");

    /* a message that has arrived wins over the cancel */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request s;
    MPI_Isend(&test_rank, 1, MPI_INT, peer, 79, MPI_COMM_WORLD, &s);
    MPI_Probe(from, 79, MPI_COMM_WORLD, &st);
    MPI_Irecv(&x, 1, MPI_INT, from, 79, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &st);
    MPI_Test_cancelled(&st, &cancelled);
    CHECK_INT(cancelled, 0, "Test_cancelled of a matched receive");
    CHECK_INT(x, from, "buffer of a matched receive");
    MPI_Wait(&s, MPI_STATUS_IGNORE);

    /* many, every other one cancelled */
    enum { N = 200 };
    int in[N];
    MPI_Request rs[N];
    MPI_Status sts[N];
    for (int i = 0; i < N; i++) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, from, 100 + i / 2, MPI_COMM_WORLD, &rs[i]);
    }
    for (int i = 0; i < N; i += 2)
        MPI_Cancel(&rs[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N / 2; i++)
        MPI_Send(&i, 1, MPI_INT, peer, 100 + i, MPI_COMM_WORLD);
    MPI_Waitall(N, rs, sts);
    for (int i = 0; i < N; i++) {
        MPI_Test_cancelled(&sts[i], &cancelled);
        CHECK_INT(cancelled, i % 2 == 0, "cancelled flag in the list");
        CHECK_INT(in[i], i % 2 ? i / 2 : -1, "value in the list");
    }
    return test_finish();
}
