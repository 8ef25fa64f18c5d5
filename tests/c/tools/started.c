/* started: how this program was started, as MPI tells it: a line with the rank, the pairs of
 * MPI_INFO_ENV, and what a send to a rank that is not there returns under the initial error
 * handler. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char line[20000], key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int rank, size, keys, len, flag, code, class = MPI_SUCCESS;
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t used = (size_t)snprintf(line, sizeof line, "rank=%d;", rank);
    MPI_Info_get_nkeys(MPI_INFO_ENV, &keys);
    for (int i = 0; i < keys; i++) {
        MPI_Info_get_nthkey(MPI_INFO_ENV, i, key);
        len = sizeof value;
        MPI_Info_get_string(MPI_INFO_ENV, key, &len, value, &flag);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s=%s;", key, value);
    }
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    if (handler == MPI_ERRORS_RETURN) {
        code = MPI_Send(NULL, 0, MPI_INT, size, 0, MPI_COMM_WORLD);
        MPI_Error_class(code, &class);
    }
    snprintf(line + used, sizeof line - used, "errors=%s%s\n",
             handler == MPI_ERRORS_RETURN   ? "return"
             : handler == MPI_ERRORS_ABORT ? "abort"
                                           : "fatal",
             class == MPI_ERR_RANK ? ",MPI_ERR_RANK" : "");
    fputs(line, stdout);
    MPI_Finalize();
    return 0;
}
