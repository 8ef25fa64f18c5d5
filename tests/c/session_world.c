/* Sessions before, during and after the world model: groups are the same, communicators do not mix,
 * MPI_Finalize leaves sessions alone, and a session can be opened after it. "strict" adds what the
 * standard asks and MPICH does not do. */
#include "test.h"

static MPI_Comm world_of(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void ring(MPI_Comm comm, const char *what)
{
    int got = -1, to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    MPI_Sendrecv(&test_rank, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, comm, MPI_STATUS_IGNORE);
    CHECK_INT(got, from, what);
}

static int deleted;

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Session early, inner, late;
    MPI_Comm before, during, after, dup;
    MPI_Group world, ours;
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    int flag = -1, relation = -1, failed = 0, key, provided = -1;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &early);
    before = world_of(early, "early");
    MPI_Initialized(&flag);
    CHECK_INT(flag, 0, "Initialized with a session");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    ring(before, "early session, after MPI_Init");

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &inner);
    during = world_of(inner, "inner");
    MPI_Group_from_session_pset(inner, "mpi://WORLD", &ours);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(world, ours, &relation);
    CHECK_INT(relation, MPI_IDENT, "the world's group and mpi://WORLD");
    MPI_Group_free(&ours);
    MPI_Group_free(&world);
    MPI_Comm_compare(MPI_COMM_WORLD, during, &relation);
    CHECK_INT(relation, MPI_CONGRUENT, "the world and the session's communicator");
    ring(MPI_COMM_WORLD, "the world");
    ring(during, "inner session");
    MPI_Comm_free(&during);
    MPI_Session_finalize(&inner);
    ring(MPI_COMM_WORLD, "the world after the inner session");
    ring(before, "early session after the inner one");

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Finalize();
    if (strict)
        CHECK_INT(deleted, 1, "attributes of MPI_COMM_SELF deleted by MPI_Finalize");
    MPI_Finalized(&flag);
    CHECK_INT(flag, 1, "Finalized with a session open");
    ring(before, "early session after MPI_Finalize");
    MPI_Comm_dup(before, &dup);
    ring(dup, "duplicate after MPI_Finalize");
    MPI_Comm_free(&dup);
    MPI_Comm_free(&before);
    MPI_Session_finalize(&early);

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &late);
    after = world_of(late, "late");
    ring(after, "late session");
    MPI_Allreduce(&test_failures, &failed, 1, MPI_INT, MPI_SUM, after);
    MPI_Comm_free(&after);
    MPI_Session_finalize(&late);
    if (test_rank == 0 && failed == 0)
        printf("No Errors\n");
    return failed != 0;
}
