/* Contexts: the same source and tag on different communicators never mix, collectives do not meet
 * point-to-point messages, and a communicator freed with messages pending is still delivered. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    enum { C = 12 };
    MPI_Comm c[C];
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    c[0] = MPI_COMM_WORLD;
    for (int i = 1; i < C; i++)
        MPI_Comm_dup(c[i / 2], &c[i]);

    /* sends in one order, receives in the reverse: tag and source are all the same */
    MPI_Request s[C], r[C];
    int in[C], out[C];
    for (int i = 0; i < C; i++) {
        out[i] = test_rank * 100 + i;
        MPI_Isend(&out[i], 1, MPI_INT, right, 1, c[i], &s[i]);
    }
    for (int i = C - 1; i >= 0; i--) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : left, i % 3 ? MPI_ANY_TAG : 1, c[i],
                  &r[i]);
    }
    MPI_Waitall(C, r, MPI_STATUSES_IGNORE);
    MPI_Waitall(C, s, MPI_STATUSES_IGNORE);
    for (int i = 0; i < C; i++)
        CHECK_INT(in[i], left * 100 + i, "value by communicator");

    /* wildcard receives stand by while collectives run on the same communicator */
    for (int i = 0; i < C; i++) {
        MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, c[i], &r[i]);
        int sum = 0, x = test_rank + 1, flag = -1;
        MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, c[i]);
        CHECK_INT(sum, test_size * (test_size + 1) / 2, "sum beside a posted wildcard");
        MPI_Bcast(&sum, 1, MPI_INT, i % test_size, c[i]);
        MPI_Barrier(c[i]);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c[i], &flag, MPI_STATUS_IGNORE);
        CHECK_INT(flag, 0, "a collective's message is visible to Iprobe");
        MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
        CHECK_INT(flag, 0, "a collective's message was received by a wildcard");
        if (flag)
            MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, c[i], &r[i]);
    }
    for (int i = 0; i < C; i++) {
        MPI_Barrier(MPI_COMM_WORLD); /* so that right's receive, not its test above, meets this */
        MPI_Send(&out[i], 1, MPI_INT, right, 5, c[i]);
    }
    MPI_Waitall(C, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < C; i++)
        CHECK_INT(in[i], left * 100 + i, "value after collectives");

    /* communicators over different halves, one tag */
    MPI_Comm half;
    int hr = -1, hs = -1, token;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, test_rank, &half);
    MPI_Comm_rank(half, &hr);
    MPI_Comm_size(half, &hs);
    token = test_rank;
    for (int i = 0; i < hs; i++)
        MPI_Sendrecv_replace(&token, 1, MPI_INT, (hr + 1) % hs, 1, (hr + hs - 1) % hs, 1, half,
                             MPI_STATUS_IGNORE);
    CHECK_INT(token, test_rank, "token round the half");
    MPI_Comm_free(&half);

    /* free with a receive pending: it still completes */
    MPI_Comm last;
    int x = -1;
    MPI_Request q[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &last);
    MPI_Irecv(&x, 1, MPI_INT, left, 2, last, &q[0]);
    MPI_Isend(&test_rank, 1, MPI_INT, right, 2, last, &q[1]);
    MPI_Comm_free(&last);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    CHECK_INT(x, left, "value through a freed communicator");
    for (int i = C - 1; i > 0; i--)
        MPI_Comm_free(&c[i]);
    return test_finish();
}
