/* A session that uses mpi://SELF only, and lives for a while: it waits for no other rank, not even
 * for one that never calls MPI_Init. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int one = 1, sum = 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "self", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    sleep(2); /* long enough for the launcher to see that the other rank never comes */
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    if (sum == 1)
        puts("No Errors");
    return sum != 1;
}
