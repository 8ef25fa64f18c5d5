/* Mica only: a call that is not implemented yet raises MPI_ERR_UNSUPPORTED_OPERATION with its name
 * through the error handler. docs/coverage.md lists them; this picks one that a later issue owns.
 */
#include "test.h"

static int calls;

static void note(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    calls++;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    MPI_Errhandler h;
    MPI_Comm c;
    MPI_Win win = MPI_WIN_NULL;
    int x = 0, code, len;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    CHECK_CLASS(code, MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Win_create");
    MPI_Error_string(code, text, &len);
    MPI_Comm_create_errhandler(note, &h);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_set_errhandler(c, h);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, h); /* where errors without a communicator may go */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, h);
    code = MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, c, &win);
    CHECK_CLASS(code, MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Win_create with a handler");
    CHECK_INT(calls, 1, "calls of the error handler");
    MPI_Errhandler_free(&h);
    MPI_Comm_free(&c);
    return test_finish();
}
