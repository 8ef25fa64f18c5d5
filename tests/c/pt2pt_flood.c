/* A flood from one sender must not starve another: rank 0 waits for one message of rank 2, blocking
 * or testing, while rank 1 sends it messages without a receive, without an end until rank 0 says
 * that it has what it waited for. Rank 2 sends only when the flood is under way. If rank 2's
 * message were looked for only when nothing else comes, this would hang. The roles of 1 and 2
 * change places, as they may talk to rank 0 by different channels (MICA_SHM=mixed). */
#include "test.h"

enum { FLOOD, WANTED, STOP, GO };

static void wait_for(int wanted, int testing)
{
    int value = -1, flag = 0;
    if (!testing) {
        MPI_Recv(&value, 1, MPI_INT, wanted, WANTED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Request request;
        MPI_Irecv(&value, 1, MPI_INT, wanted, WANTED, MPI_COMM_WORLD, &request);
        while (MPI_Test(&request, &flag, MPI_STATUS_IGNORE), !flag)
            ;
    }
    CHECK_INT(value, wanted, "the message that was waited for");
}

/* Takes the flood in, in order, up to the message that says how long it was. */
static void drain(int flooder)
{
    for (int n = 0;; n++) {
        int value = -1;
        MPI_Recv(&value, 1, MPI_INT, flooder, FLOOD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (value < 0) {
            CHECK_INT(-value - 1, n, "messages of the flood");
            return;
        }
        CHECK_INT(value, n, "number of a message of the flood");
    }
}

static void flood(int other)
{
    int n = 0, stop = 0;
    for (; !stop; n++) {
        MPI_Send(&n, 1, MPI_INT, 0, FLOOD, MPI_COMM_WORLD);
        if (n == 300)
            MPI_Send(NULL, 0, MPI_BYTE, other, GO, MPI_COMM_WORLD);
        if (n >= 300)
            MPI_Iprobe(0, STOP, MPI_COMM_WORLD, &stop, MPI_STATUS_IGNORE);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, STOP, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    n = -n - 1;
    MPI_Send(&n, 1, MPI_INT, 0, FLOOD, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(3);
    for (int turn = 0; turn < 4; turn++) {
        int flooder = 1 + turn % 2, wanted = 3 - flooder;
        if (test_rank == 0) {
            wait_for(wanted, turn / 2);
            MPI_Send(NULL, 0, MPI_BYTE, flooder, STOP, MPI_COMM_WORLD);
            drain(flooder);
        } else if (test_rank == flooder) {
            flood(wanted);
        } else if (test_rank == wanted) {
            MPI_Recv(NULL, 0, MPI_BYTE, flooder, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&wanted, 1, MPI_INT, 0, WANTED, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return test_finish();
}
