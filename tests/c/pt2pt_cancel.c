/* MPI_Cancel: a cancelled receive takes no message, one that matched is delivered; a cancelled send
 * completes whatever the others do, and no receive gets its message. */
#include "test.h"

enum { LONG = 4000000 };

static int cancelled_by(MPI_Request *r)
{
    int cancelled = -1;
    MPI_Status st;
    MPI_Cancel(r);
    MPI_Wait(r, &st);
    MPI_Test_cancelled(&st, &cancelled);
    return cancelled;
}

/* Sends of every kind that have no receive, and sends that are received. All ranks are in MPI. */
static void sends(int to, int from)
{
    static char last;
    char *out = test_alloc(LONG), *in = test_alloc(LONG);
    int flag, cancelled = -1;
    MPI_Request s, r, none;
    MPI_Status st;
    memset(out, 7, LONG);
    for (int kind = 0; kind < 4; kind++) {
        int n = kind % 2 ? LONG : 1;
        if (kind < 2)
            MPI_Issend(out, n, MPI_CHAR, to, 200 + kind, MPI_COMM_WORLD, &s);
        else { /* persistent, and started a second time after it was cancelled */
            MPI_Ssend_init(out, n, MPI_CHAR, to, 200 + kind, MPI_COMM_WORLD, &s);
            MPI_Start(&s);
            CHECK_INT(cancelled_by(&s), 1, "Test_cancelled of a persistent send");
            MPI_Start(&s);
        }
        CHECK_INT(cancelled_by(&s), 1, "Test_cancelled of a synchronous send");
        if (kind >= 2)
            MPI_Request_free(&s);
        CHECK(s == MPI_REQUEST_NULL, "request not null");
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iprobe(from, 200 + kind, MPI_COMM_WORLD, &flag, &st);
        CHECK_INT(flag, 0, "Iprobe for a message that was cancelled");
    }
    /* a long standard send; the next message of the same tag is received */
    memset(in, 0, LONG);
    MPI_Isend(out, LONG, MPI_CHAR, to, 210, MPI_COMM_WORLD, &s);
    CHECK_INT(cancelled_by(&s), 1, "Test_cancelled of a long send");
    MPI_Barrier(MPI_COMM_WORLD);
    out[0] = 9;
    MPI_Isend(out, LONG, MPI_CHAR, to, 210, MPI_COMM_WORLD, &s);
    MPI_Recv(in, LONG, MPI_CHAR, from, 210, MPI_COMM_WORLD, &st);
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    CHECK(in[0] == 9 && in[LONG - 1] == 7, "received %d and %d", in[0], in[LONG - 1]);
    /* a short one may have left: cancelled or received, one of the two */
    MPI_Isend(out, 1, MPI_CHAR, to, 211, MPI_COMM_WORLD, &s);
    cancelled = cancelled_by(&s);
    MPI_Sendrecv(&cancelled, 1, MPI_INT, to, 212, &flag, 1, MPI_INT, from, 212, MPI_COMM_WORLD, &st);
    if (!flag)
        MPI_Recv(in, 1, MPI_CHAR, from, 211, MPI_COMM_WORLD, &st);
    /* its receive is posted: it is delivered */
    MPI_Irecv(in, LONG, MPI_CHAR, from, 213, MPI_COMM_WORLD, &r);
    MPI_Barrier(MPI_COMM_WORLD);
    out[0] = 11;
    MPI_Issend(out, LONG, MPI_CHAR, to, 213, MPI_COMM_WORLD, &s);
    CHECK_INT(cancelled_by(&s), 0, "Test_cancelled of a send with a receive");
    MPI_Wait(&r, &st);
    CHECK(in[0] == 11 && in[LONG - 1] == 7, "received %d and %d", in[0], in[LONG - 1]);
    /* cancelled, and freed instead of waited for: the last calls before MPI_Finalize, at which a
     * peer may end before it has seen them; more than fit into a FIFO */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 1000; i++) {
        MPI_Issend(&last, 1, MPI_CHAR, to, 214, MPI_COMM_WORLD, &none);
        MPI_Cancel(&none);
        MPI_Request_free(&none);
    }
    free(out);
    free(in);
}

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
    sends(peer, from);
    return test_finish();
}
