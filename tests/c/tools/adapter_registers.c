/* A process of a simulated node whose adapter has no model behind it: says who it is, and stores to registers.
 * No message is completed. Arguments: finalize or abort. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    int rank, size, len, buffer = 0;
    MPI_Info info;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &len);
    printf("rank %d of %d on %s, time %s\n", rank, size, name,
           MPI_Wtime() <= MPI_Wtime() ? "runs" : "jumps");
    fflush(stdout);
    MPI_Pcontrol(5);
    if (argc > 1 && strcmp(argv[1], "finalize") == 0) {
        MPI_Finalize();
        return 0;
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, "mica_inject", "true");
    MPI_Comm_set_info(MPI_COMM_WORLD, info);
    MPI_Irecv(&buffer, 1, MPI_INT, 0, 77, MPI_COMM_WORLD, &request);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 1;
}
