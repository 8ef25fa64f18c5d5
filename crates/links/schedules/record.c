/* Calls one collective four times on 32 ranks, for MICA_RECORD_TRANSFERS: see record.sh.
 * Arguments: the collective, bytes of a rank's buffer (for alltoall and allgather: of a part). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *name = argc > 2 ? argv[1] : "";
    int bytes = argc > 2 ? atoi(argv[2]) : 0;
    double *send = calloc((size_t)ranks * bytes + 8, 1);
    double *receive = calloc((size_t)ranks * bytes + 8, 1);
    int count = bytes / 8, known = 1;
    for (int i = 0; i < 4 && known; i++) {
        if (!strcmp(name, "allreduce"))
            MPI_Allreduce(send, receive, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else if (!strcmp(name, "reduce"))
            MPI_Reduce(send, receive, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        else if (!strcmp(name, "bcast"))
            MPI_Bcast(send, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        else if (!strcmp(name, "allgather"))
            MPI_Allgather(send, count, MPI_DOUBLE, receive, count, MPI_DOUBLE, MPI_COMM_WORLD);
        else if (!strcmp(name, "alltoall"))
            MPI_Alltoall(send, count, MPI_DOUBLE, receive, count, MPI_DOUBLE, MPI_COMM_WORLD);
        else if (!strcmp(name, "barrier"))
            MPI_Barrier(MPI_COMM_WORLD);
        else
            known = 0;
    }
    if (!known)
        fprintf(stderr, "usage: record COLLECTIVE BYTES\n");
    free(send);
    free(receive);
    MPI_Finalize();
    return known ? 0 : 2;
}
