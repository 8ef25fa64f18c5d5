/* MPI_Probe and MPI_Iprobe: the envelope of the first matching message, without receiving it;
 * wildcards; a probed message is the one that a receive with the same arguments then takes. */
#include "test.h"

static const int lengths[] = {0, 1, 13, 512, 4096, 20000, 70000, 300001};
enum { N = sizeof lengths / sizeof *lengths };

static void sender(int to)
{
    for (int i = 0; i < N; i++) {
        unsigned char *b = test_alloc((size_t)lengths[i]);
        MPI_Request r;
        test_fill(b, (size_t)lengths[i], (uint64_t)(test_rank * 100 + i));
        MPI_Isend(b, lengths[i], MPI_BYTE, to, 10 + i, MPI_COMM_WORLD, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        free(b);
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    MPI_Status ps, rs;
    int flag = -1;

    /* no rank has sent with this tag */
    MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &flag, &ps);
    CHECK_INT(flag, 0, "Iprobe of a tag that was not sent");
    MPI_Barrier(MPI_COMM_WORLD);

    if (test_rank != 0) {
        sender(0);
    } else {
        int next[64] = {0};
        for (int k = 0; k < N * (test_size - 1); k++) {
            int count = -1, again = -1;
            if (k % 2) {
                do {
                    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &ps);
                } while (!flag);
            } else {
                MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &ps);
            }
            int src = ps.MPI_SOURCE, i = ps.MPI_TAG - 10;
            CHECK_INT(i, next[src], "next message of a source by probe");
            if (i < 0 || i >= N)
                MPI_Abort(MPI_COMM_WORLD, 1);
            next[src]++;
            MPI_Get_count(&ps, MPI_BYTE, &count);
            CHECK_INT(count, lengths[i], "probed count");
            /* a second, specific probe sees the same message again */
            MPI_Probe(src, ps.MPI_TAG, MPI_COMM_WORLD, &rs);
            MPI_Get_count(&rs, MPI_BYTE, &again);
            CHECK_INT(again, count, "count of the second probe");
            unsigned char *b = test_alloc((size_t)count);
            MPI_Recv(b, count, MPI_BYTE, src, ps.MPI_TAG, MPI_COMM_WORLD, &rs);
            CHECK(test_verify(b, (size_t)count, (uint64_t)(src * 100 + i)) == (size_t)count,
                  "data of message %d from %d differs", i, src);
            free(b);
        }
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK_INT(flag, 0, "Iprobe after everything was received");
    }
    MPI_Barrier(MPI_COMM_WORLD);

    /* out of order by tag: probe the second message while the first waits unexpected */
    if (test_rank == 1) {
        int a = 1, b = 2;
        MPI_Send(&a, 1, MPI_INT, 0, 50, MPI_COMM_WORLD);
        MPI_Send(&b, 1, MPI_INT, 0, 51, MPI_COMM_WORLD);
    } else if (test_rank == 0) {
        int a = 0, b = 0;
        MPI_Probe(1, 51, MPI_COMM_WORLD, &ps);
        CHECK_INT(ps.MPI_TAG, 51, "tag of the specific probe");
        MPI_Iprobe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &ps);
        CHECK_INT(flag, 1, "Iprobe of the earlier message");
        CHECK_INT(ps.MPI_TAG, 50, "tag of the wildcard probe");
        MPI_Recv(&b, 1, MPI_INT, 1, 51, MPI_COMM_WORLD, &rs);
        MPI_Recv(&a, 1, MPI_INT, 1, 50, MPI_COMM_WORLD, &rs);
        CHECK_INT(a, 1, "message of tag 50");
        CHECK_INT(b, 2, "message of tag 51");
    }
    return test_finish();
}
