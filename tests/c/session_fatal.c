/* Ends badly, as its argument says:
 *   handler  an error on a session whose handler is MPI_ERRORS_ARE_FATAL
 *   default  an error on no session at all, which goes to the initial error handler
 *   create   an error of MPI_Comm_create_from_group, for the handler that it is given */
#include "test.h"

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Session session;
    MPI_Comm comm;
    int n;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    if (!strcmp(how, "handler"))
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &n, NULL);
    if (!strcmp(how, "default"))
        MPI_Session_get_num_psets(MPI_SESSION_NULL, MPI_INFO_NULL, &n);
    if (!strcmp(how, "create"))
        MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_ABORT, &comm);
    MPI_Session_finalize(&session);
    return 0; /* wrong: the harness wants a failure */
}
