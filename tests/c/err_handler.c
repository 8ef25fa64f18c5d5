/* User error handlers: called with the communicator and the code, inherited by dup, replaced,
 * freed while set; MPI_Comm_call_errhandler; added error classes, codes and strings. */
#include "test.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void note(MPI_Comm *comm, int *code, ...)
{
    calls++;
    last_comm = *comm;
    last_code = *code;
}

static int other_calls;

static void other(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    other_calls++;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int strict = argc > 1 && !strcmp(argv[1], "strict"); /* where the standard lets peers differ */
    MPI_Errhandler h, h2, got;
    MPI_Comm c, d;
    int x = 0, code, cls = -1, len;
    char text[MPI_MAX_ERROR_STRING];

    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    CHECK(got == MPI_ERRORS_ARE_FATAL, "the world's first handler is not MPI_ERRORS_ARE_FATAL");
    MPI_Errhandler_free(&got);
    CHECK(got == MPI_ERRHANDLER_NULL, "handle after Errhandler_free is not null");
    MPI_Comm_create_errhandler(note, &h);
    MPI_Comm_create_errhandler(other, &h2);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_set_errhandler(c, h);
    code = MPI_Send(&x, 1, MPI_INT, test_size + 3, 0, c);
    CHECK_INT(calls, 1, "calls of the handler");
    CHECK(last_comm == c, "the handler saw another communicator");
    CHECK_CLASS(last_code, MPI_ERR_RANK, "code in the handler");
    if (strict)
        CHECK_CLASS(code, MPI_ERR_RANK, "code after the handler returned");
    MPI_Bcast(&x, 1, MPI_INT, test_size, c);
    CHECK_INT(calls, 2, "calls after a bad root");
    CHECK_CLASS(last_code, MPI_ERR_ROOT, "code in the handler");

    /* a request's error goes to its communicator's handler, at completion */
    MPI_Request r;
    int two[2] = {1, 2}, one = 0;
    MPI_Irecv(&one, 1, MPI_INT, test_rank, 1, c, &r);
    MPI_Send(two, 2, MPI_INT, test_rank, 1, c);
    code = MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK_INT(calls, 3, "calls after a truncated receive");
    CHECK_CLASS(last_code, MPI_ERR_TRUNCATE, "code in the handler");
    CHECK(last_comm == c, "the handler saw another communicator after Wait");

    /* inherited by dup; freed while in use, it still works; other communicators unaffected */
    MPI_Comm_dup(c, &d);
    MPI_Errhandler_free(&h);
    MPI_Send(&x, 1, MPI_INT, -9, 0, d);
    CHECK(calls == 4 && last_comm == d, "inherited handler: %d calls", calls);
    MPI_Comm_set_errhandler(d, h2);
    MPI_Send(&x, 1, MPI_INT, -9, 0, d);
    CHECK(calls == 4 && other_calls == 1, "replaced handler: %d and %d calls", calls, other_calls);
    MPI_Comm_get_errhandler(d, &got);
    CHECK(got == h2, "get_errhandler gives another handler");
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&h2);

    /* by hand, with a user's own class and code */
    int my_class, my_code, *used = NULL, flag;
    MPI_Add_error_class(&my_class);
    MPI_Add_error_code(my_class, &my_code);
    MPI_Add_error_string(my_code, "out of cheese");
    CHECK(my_class > MPI_ERR_LASTCODE, "a new class %d within the predefined ones", my_class);
    MPI_Error_class(my_code, &cls);
    CHECK_INT(cls, my_class, "class of the user's code");
    MPI_Error_string(my_code, text, &len);
    CHECK(strcmp(text, "out of cheese") == 0, "string of the user's code is \"%s\"", text);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &used, &flag);
    CHECK(flag && *used >= (strict ? my_code : my_class), "MPI_LASTUSEDCODE is below the user's");
    MPI_Comm_call_errhandler(c, my_code);
    CHECK(calls == 5 && last_code == my_code, "call_errhandler: %d calls, code %d", calls,
          last_code);

    /* every predefined class has a text; a number that is no class is an error on MPI_COMM_SELF */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int e = MPI_SUCCESS; e <= MPI_ERR_LASTCODE && e < 100; e++) {
        len = -1;
        if (MPI_Error_string(e, text, &len) == MPI_SUCCESS)
            CHECK(len > 0, "error class %d has no text", e);
    }
    /* still usable */
    int s = 0;
    MPI_Allreduce(&test_rank, &s, 1, MPI_INT, MPI_SUM, d);
    CHECK_INT(s, test_size * (test_size - 1) / 2, "sum after all these errors");
    MPI_Comm_free(&d);
    MPI_Comm_free(&c);
    return test_finish();
}
