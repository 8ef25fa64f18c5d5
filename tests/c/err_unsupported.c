/* Mica only: a call that is not implemented yet raises MPI_ERR_UNSUPPORTED_OPERATION with its name
 * through the error handler. docs/coverage.md lists them; this picks one.
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
    MPI_Comm children = MPI_COMM_NULL;
    int code, len;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                          MPI_ERRCODES_IGNORE);
    CHECK_CLASS(code, MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Comm_spawn");
    MPI_Error_string(code, text, &len);
    MPI_Comm_create_errhandler(note, &h);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_set_errhandler(c, h);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, h); /* where errors without a communicator may go */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, h);
    code = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, c, &children,
                          MPI_ERRCODES_IGNORE);
    CHECK_CLASS(code, MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Comm_spawn with a handler");
    CHECK_INT(calls, 1, "calls of the error handler");
    MPI_Errhandler_free(&h);
    MPI_Comm_free(&c);
    return test_finish();
}
