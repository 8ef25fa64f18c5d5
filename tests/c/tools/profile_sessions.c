/* MPI by sessions alone, two of them one after the other (tests/jobs/profile.rs). */
#include <mpi.h>
#include <stdlib.h>

static void sum_up(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int one = 1, sum = 0, size;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "sum", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != size) abort();
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

int main(void) {
    sum_up();
    sum_up();
    return 0;
}
