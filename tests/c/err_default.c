/* Which error handler sees an error that belongs to no communicator, or to one without a handler of
 * its own (MPI 5.0, 9.3, and MPICH where that is silent); keys freed through a copy;
 * MPI_DATATYPE_NULL without elements. The argument says what:
 *   world    only MPI_COMM_WORLD has a handler: it sees errors of no object, and those of older communicators
 *   self     only MPI_COMM_SELF has one: it sees errors of no object
 *   both     MPI_COMM_SELF's comes first
 *   fatal    MPI_ERRORS_ARE_FATAL that the program has set is no initial handler: it ends the job
 *   alone    an error on MPI_COMM_WORLD is not MPI_COMM_SELF's
 *   keyval   free_keyval through a copy
 *   null     MPI_DATATYPE_NULL with count 0 */
#include "test.h"

static int world_calls, self_calls;
static MPI_Comm last;

static void of_world(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    world_calls++;
    last = *comm;
}

static void of_self(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    self_calls++;
    last = *comm;
}

static void expect(int world, int self, MPI_Comm comm, const char *what)
{
    CHECK(world_calls == world && self_calls == self, "%s: %d calls of the world's handler, %d of self's", what,
          world_calls, self_calls);
    CHECK(last == comm, "%s: the handler saw another communicator", what);
    world_calls = self_calls = 0;
    last = MPI_COMM_NULL;
}

/* Errors without an object. */
static void no_object(void)
{
    int n;
    MPI_Group group, some;
    int far = test_size + 5;
    MPI_Type_size(MPI_DATATYPE_NULL, &n);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_incl(group, 1, &far, &some);
    MPI_Group_free(&group);
    MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_NULL);
}

static void keyvals(void)
{
    int key, copy, again, flag;
    void *value;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    copy = again = key;
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &key);
    CHECK_INT(MPI_Comm_free_keyval(&key), MPI_SUCCESS, "freeing a key");
    CHECK_INT(MPI_Comm_free_keyval(&copy), MPI_SUCCESS, "freeing it through a copy, while a value is attached");
    CHECK_INT(copy, MPI_KEYVAL_INVALID, "the copy");
    CHECK_INT(MPI_Comm_get_attr(MPI_COMM_SELF, again, &value, &flag), MPI_SUCCESS, "the value of a freed key");
    CHECK(flag, "the value of a freed key is gone");
    CHECK_INT(MPI_Comm_delete_attr(MPI_COMM_SELF, again), MPI_SUCCESS, "deleting it");
    CHECK_INT(MPI_Comm_free_keyval(&again), MPI_SUCCESS, "freeing a key once more, when it is gone");
    key = MPI_KEYVAL_INVALID;
    CHECK_CLASS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL, "freeing MPI_KEYVAL_INVALID");
    key = 0x12345;
    CHECK_CLASS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL, "freeing what never was a key");
    key = MPI_TAG_UB;
    CHECK_CLASS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL, "freeing a predefined key");
}

#define GOOD(call) CHECK_INT(call, MPI_SUCCESS, #call)
#define BAD(call) CHECK_CLASS(call, MPI_ERR_TYPE, #call)

static void null_datatype(void)
{
    MPI_Datatype n = MPI_DATATYPE_NULL, *nulls = malloc(sizeof *nulls * (size_t)test_size);
    int *zeros = calloc((size_t)test_size, sizeof *zeros), x = 7, to = (test_rank + 1) % test_size, count = -1;
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request r[3];
    MPI_Status st;
    MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
    for (int i = 0; i < test_size; i++)
        nulls[i] = n;
    GOOD(MPI_Isend(&x, 0, n, to, 0, w, &r[0]));
    GOOD(MPI_Recv(&x, 0, n, MPI_ANY_SOURCE, 0, w, &st));
    MPI_Get_count(&st, MPI_INT, &count);
    CHECK_INT(count, 0, "count of nothing");
    GOOD(MPI_Wait(&r[0], &st));
    GOOD(MPI_Irecv(NULL, 0, n, MPI_ANY_SOURCE, 1, w, &r[0]));
    GOOD(MPI_Send_init(&x, 0, n, to, 1, w, &r[1]));
    GOOD(MPI_Start(&r[1]));
    GOOD(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    GOOD(MPI_Request_free(&r[1]));
    GOOD(MPI_Ssend(&x, 0, n, MPI_PROC_NULL, 0, w));
    GOOD(MPI_Sendrecv(&x, 0, n, to, 2, NULL, 0, n, MPI_ANY_SOURCE, 2, w, &st));
    GOOD(MPI_Bcast(&x, 0, n, 0, w));
    GOOD(MPI_Ibcast(&x, 0, n, 0, w, &r[0]));
    GOOD(MPI_Wait(&r[0], &st));
    GOOD(MPI_Alltoallw(&x, zeros, zeros, nulls, &count, zeros, zeros, nulls, w));
    GOOD(MPI_Ialltoallw(&x, zeros, zeros, nulls, &count, zeros, zeros, nulls, w, &r[0]));
    GOOD(MPI_Wait(&r[0], &st));
    CHECK_INT(x, 7, "what was not received into");

    BAD(MPI_Send(&x, 1, n, MPI_PROC_NULL, 0, w));
    BAD(MPI_Send(&x, 0, (MPI_Datatype)0, MPI_PROC_NULL, 0, w));
    BAD(MPI_Allreduce(&x, &count, 0, n, MPI_SUM, w));
    BAD(MPI_Gather(&x, 0, n, &count, 0, MPI_INT, 0, w));
    BAD(MPI_Type_contiguous(0, n, nulls));
    free(zeros);
    free(nulls);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Comm early, of_early, alone;
    MPI_Errhandler world, self, got;
    test_init(&argc, &argv);
    MPI_Comm_create_errhandler(of_world, &world);
    MPI_Comm_create_errhandler(of_self, &self);
    MPI_Comm_dup(MPI_COMM_WORLD, &early);
    MPI_Comm_split(early, 0, test_rank, &of_early);
    MPI_Comm_dup(MPI_COMM_SELF, &alone);
    last = MPI_COMM_NULL;
    if (!strcmp(what, "world")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
        no_object();
        expect(3, 0, MPI_COMM_WORLD, "without an object");
        MPI_Comm comms[] = {early, of_early, alone, MPI_COMM_SELF};
        for (int i = 0; i < 4; i++) {
            MPI_Send(NULL, 0, MPI_INT, -77, 0, comms[i]);
            expect(1, 0, MPI_COMM_WORLD, "a communicator that was made before");
            MPI_Comm_get_errhandler(comms[i], &got);
            CHECK(got == MPI_ERRORS_ARE_FATAL, "the handler of an early communicator is another");
        }
        MPI_Comm_set_errhandler(early, self);
        MPI_Send(NULL, 0, MPI_INT, -77, 0, early);
        expect(0, 1, early, "a communicator that has got its own handler");
    } else if (!strcmp(what, "self")) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, self);
        no_object();
        expect(0, 3, MPI_COMM_SELF, "without an object");
    } else if (!strcmp(what, "both")) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, self);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
        no_object();
        expect(0, 3, MPI_COMM_SELF, "without an object");
        MPI_Send(NULL, 0, MPI_INT, -77, 0, MPI_COMM_WORLD);
        expect(1, 0, MPI_COMM_WORLD, "on MPI_COMM_WORLD");
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        no_object();
        expect(0, 3, MPI_COMM_SELF, "without an object, the world's being fatal");
    } else if (!strcmp(what, "fatal")) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
        no_object();
    } else if (!strcmp(what, "alone")) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, self);
        MPI_Send(NULL, 0, MPI_INT, -77, 0, MPI_COMM_WORLD);
    } else if (!strcmp(what, "keyval")) {
        keyvals();
    } else {
        null_datatype();
    }
    MPI_Errhandler_free(&world);
    MPI_Errhandler_free(&self);
    return test_finish();
}
