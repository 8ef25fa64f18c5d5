/* MPI_Issend must not complete before the matching receive was posted. Shown by causality, not by
 * time: the receiver posts the receive only after a second message which the sender sends after
 * many failed tests; if a test had succeeded, the synchronous mode was broken. */
#include "test.h"

static void round_trip(size_t n, int tag, int probe_first)
{
    unsigned char *b = test_alloc(n);
    if (test_rank == 0) {
        MPI_Request r;
        int flag = 0;
        test_fill(b, n, n);
        MPI_Issend(b, (int)n, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &r);
        for (int i = 0; i < 2000 && !flag; i++)
            MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "Issend of %zu bytes completed before its receive was posted", n);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD); /* now you may receive */
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else if (test_rank == 1) {
        if (probe_first) /* seeing the envelope is not receiving it */
            MPI_Probe(0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(b, (int)n, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(test_verify(b, n, n) == n, "data of Issend of %zu bytes differ", n);
    }
    free(b);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 1, 8, 100, 2000, 9000, 40000, 70000, 1000000};
    test_init(&argc, &argv);
    test_needs(2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int probe = 0; probe < 2; probe++)
            round_trip(sizes[i], 10 + (int)i, probe);
    /* to itself as well */
    MPI_Request s, r;
    int flag = 0, x = 5, y = 0;
    MPI_Issend(&x, 1, MPI_INT, test_rank, 3, MPI_COMM_WORLD, &s);
    for (int i = 0; i < 100 && !flag; i++)
        MPI_Test(&s, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "Issend to itself completed before its receive was posted");
    MPI_Irecv(&y, 1, MPI_INT, test_rank, 3, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    CHECK_INT(y, 5, "value of Issend to itself");
    return test_finish();
}
