/* MPI_COMM_WORLD and MPI_COMM_SELF in a program that opens sessions and never calls MPI_Init: MPI
 * leaves them out there, and Intel MPI lets them pass. MPI_Init may follow. */
#include "test.h"

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Group group;
    int sum = -1, one = 1, self = -1, members = -1, flag = -1;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    MPI_Initialized(&flag);
    CHECK_INT(flag, 0, "Initialized");
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Group_size(group, &members);
    CHECK_INT(test_size, members, "size of MPI_COMM_WORLD");
    MPI_Group_rank(group, &members);
    CHECK_INT(test_rank, members, "rank in MPI_COMM_WORLD");
    MPI_Group_free(&group);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_INT(sum, test_size, "Allreduce on MPI_COMM_WORLD");
    MPI_Comm_size(MPI_COMM_SELF, &self);
    CHECK_INT(self, 1, "size of MPI_COMM_SELF");
    MPI_Sendrecv(&test_rank, 1, MPI_INT, (test_rank + 1) % test_size, 3, &members, 1, MPI_INT,
                 (test_rank + test_size - 1) % test_size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_INT(members, (test_rank + test_size - 1) % test_size, "a message on MPI_COMM_WORLD");
    if (argc > 1 && !strcmp(argv[1], "init")) {
        MPI_Init(&argc, &argv);
        MPI_Session_finalize(&session);
        return test_finish();
    }
    int failed = test_verdict();
    MPI_Session_finalize(&session);
    return failed;
}
