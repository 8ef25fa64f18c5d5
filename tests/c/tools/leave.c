/* Rank 0 leaves with status 0 and without MPI_Finalize; the others do as the argument says, then
 * leave likewise.
 *   all       nothing
 *   slow      rank 1 works for two seconds, without MPI
 *   talk      the others send each other messages, after a pause
 *   recv      rank 1 receives from rank 0, which sends nothing
 *   late      the same, and rank 0 leaves half a second after the others that leave
 *   any       the others receive from any rank
 *   send      rank 1 sends to rank 0, which receives nothing
 *   finalize  the others call MPI_Finalize
 *   fail      rank 1 exits with 3
 *   leak      all leave a session open, and do not use MPI otherwise */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rank, size, x = 0;
    if (!strcmp(how, "leak")) {
        MPI_Session session;
        return MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        if (!strcmp(how, "late"))
            usleep(500 * 1000);
        return 0;
    }
    if (!strcmp(how, "slow") && rank == 1)
        sleep(2);
    if (!strcmp(how, "talk")) {
        int others = size - 1, to = 1 + rank % others, from = 1 + (rank + others - 2) % others;
        if (rank == 1)
            usleep(2500 * 1000);
        for (int i = 0; i < 100; i++)
            MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &x, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (x != from)
            return 4;
    }
    if ((!strcmp(how, "recv") || !strcmp(how, "late")) && rank == 1)
        MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(how, "any"))
        MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(how, "send") && rank == 1)
        MPI_Ssend(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (!strcmp(how, "finalize"))
        MPI_Finalize();
    if (!strcmp(how, "fail") && rank == 1)
        return 3;
    printf("rank %d is done\n", rank);
    return 0;
}
