/* MPI_Mprobe, MPI_Improbe, MPI_Mrecv, MPI_Imrecv: a matched message is out of the way of others. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    enum { BIG = 300000 };
    static unsigned char big[BIG];
    MPI_Status st;
    MPI_Message m1, m2;
    int flag = 0, count = -1, x = 0;
    if (test_rank == 1) {
        int a = 11, b = 22;
        MPI_Send(&a, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        MPI_Send(&b, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        test_fill(big, BIG, 3);
        MPI_Send(big, BIG, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
    } else if (test_rank == 0) {
        MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &m1, &st);
        CHECK_INT(st.MPI_SOURCE, 1, "source of Mprobe");
        /* the first is matched: a plain receive gets the second */
        MPI_Recv(&x, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &st);
        CHECK_INT(x, 22, "receive beside a matched message");
        do {
            MPI_Improbe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &m2, &st);
        } while (!flag);
        MPI_Get_count(&st, MPI_BYTE, &count);
        CHECK_INT(count, BIG, "count of Improbe");
        MPI_Request r;
        MPI_Imrecv(big, BIG, MPI_BYTE, &m2, &r);
        CHECK(m2 == MPI_MESSAGE_NULL, "message handle after Imrecv is not null");
        MPI_Wait(&r, &st);
        CHECK(test_verify(big, BIG, 3) == BIG, "data of Imrecv differ");
        MPI_Mrecv(&x, 1, MPI_INT, &m1, &st);
        CHECK(m1 == MPI_MESSAGE_NULL, "message handle after Mrecv is not null");
        CHECK_INT(x, 11, "data of Mrecv");
        MPI_Improbe(1, 5, MPI_COMM_WORLD, &flag, &m1, &st);
        CHECK_INT(flag, 0, "Improbe after everything was received");
        MPI_Mprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &m1, &st);
        CHECK(m1 == MPI_MESSAGE_NO_PROC, "Mprobe(MPI_PROC_NULL) is not MPI_MESSAGE_NO_PROC");
        MPI_Mrecv(&x, 1, MPI_INT, &m1, &st);
        CHECK_INT(st.MPI_SOURCE, MPI_PROC_NULL, "source of Mrecv(MPI_MESSAGE_NO_PROC)");
    }
    return test_finish();
}
