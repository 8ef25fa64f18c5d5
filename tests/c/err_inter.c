/* What intercommunicators refuse: calls for intracommunicators, ranks beyond the remote group,
 * roots, overlapping groups, leaders that do not exist; and that a group hears of its leader's
 * failure. */
#include "test.h"

#define BAD(call, cls) CHECK_CLASS(call, cls, #call)
#define BAD2(call, one, other) CHECK_EITHER(call, one, other, #call)

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    /* erroneous programs that MPI lets a library accept, and Mica promises to refuse */
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    int color = test_rank > 0, me, remote, n = -1, x = 0, y = 0;
    MPI_Comm intra, inter, c, overlap[2];
    MPI_Group g;
    MPI_Status status;
    MPI_Errhandler handler;
    MPI_Comm_split(MPI_COMM_WORLD, color, 0, &intra);
    MPI_Comm_rank(intra, &me);
    MPI_Comm_size(intra, &n);

    BAD(MPI_Intercomm_create(MPI_COMM_NULL, 0, MPI_COMM_WORLD, 0, 0, &c), MPI_ERR_COMM);
    BAD(MPI_Intercomm_create(intra, n, MPI_COMM_WORLD, 0, 0, &c), MPI_ERR_RANK);
    BAD(MPI_Intercomm_create(intra, -1, MPI_COMM_WORLD, 0, 0, &c), MPI_ERR_RANK);
    BAD(MPI_Intercomm_create(intra, 0, MPI_COMM_WORLD, 0, -3, &c), MPI_ERR_TAG);
    if (strict) { /* every rank gets the error */
        BAD(MPI_Intercomm_create(intra, 0, MPI_COMM_WORLD, test_size, 0, &c), MPI_ERR_RANK);
        BAD(MPI_Intercomm_create(intra, 0, MPI_COMM_WORLD, MPI_PROC_NULL, 0, &c), MPI_ERR_RANK);
        BAD(MPI_Intercomm_create(intra, 0, MPI_COMM_NULL, 0, 0, &c), MPI_ERR_COMM);
        BAD(MPI_Intercomm_create(intra, 0, intra, 0, 0, &c), MPI_ERR_RANK); /* itself */
        /* groups 0, 1 and 1, 2, led by the processes that they do not share */
        for (int first = 0; first < 2 && test_size > 2; first++) {
            int in = test_rank == first || test_rank == first + 1;
            MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, 0, &overlap[first]);
        }
        for (int first = 0; first < 2 && test_size > 2; first++)
            if (overlap[first] != MPI_COMM_NULL) {
                MPI_Comm_set_errhandler(overlap[first], MPI_ERRORS_RETURN);
                BAD(MPI_Intercomm_create(overlap[first], first, MPI_COMM_WORLD, first ? 0 : 2, 0, &c),
                    MPI_ERR_COMM);
                MPI_Comm_free(&overlap[first]);
            }
    }

    MPI_Intercomm_create(intra, 0, MPI_COMM_WORLD, color ? 0 : 1, 9, &inter);
    MPI_Comm_get_errhandler(inter, &handler); /* inherited from the local communicator */
    CHECK(handler == MPI_ERRORS_RETURN, "the error handler is not inherited");
    MPI_Errhandler_free(&handler);
    MPI_Comm_remote_size(inter, &remote);

    if (strict) {
        BAD(MPI_Comm_remote_size(intra, &n), MPI_ERR_COMM);
        BAD(MPI_Comm_remote_group(intra, &g), MPI_ERR_COMM);
        BAD(MPI_Intercomm_merge(intra, 0, &c), MPI_ERR_COMM);
    }
    BAD(MPI_Intercomm_merge(MPI_COMM_NULL, 0, &c), MPI_ERR_COMM);
    BAD(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 0, &c), MPI_ERR_COMM);
    BAD(MPI_Send(&x, 1, MPI_INT, remote, 0, inter), MPI_ERR_RANK);
    BAD(MPI_Recv(&x, 1, MPI_INT, remote, 0, inter, &status), MPI_ERR_RANK);
    BAD(MPI_Iprobe(remote, 0, inter, &n, &status), MPI_ERR_RANK);

    BAD(MPI_Scan(&x, &y, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    BAD(MPI_Exscan(&x, &y, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    BAD(MPI_Bcast(&x, 1, MPI_INT, remote, inter), MPI_ERR_ROOT);
    BAD(MPI_Bcast(&x, 1, MPI_INT, MPI_ANY_SOURCE, inter), MPI_ERR_ROOT);
    BAD(MPI_Gather(&x, 1, MPI_INT, &y, 1, MPI_INT, remote, inter), MPI_ERR_ROOT);
    BAD(MPI_Reduce(&x, &y, 1, MPI_INT, MPI_SUM, remote, inter), MPI_ERR_ROOT);
    if (strict) {
        int *counts = calloc(2 * (size_t)remote, sizeof *counts);
        BAD(MPI_Bcast(&x, 1, MPI_INT, MPI_ROOT, intra), MPI_ERR_ROOT);
        BAD(MPI_Allreduce(MPI_IN_PLACE, &y, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_BUFFER);
        BAD(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, counts, 1, MPI_INT, inter), MPI_ERR_BUFFER);
        BAD(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, counts, 1, MPI_INT, inter), MPI_ERR_BUFFER);
        BAD(MPI_Alltoallv(MPI_IN_PLACE, counts, counts, MPI_INT, counts, counts, counts, MPI_INT,
                          inter),
            MPI_ERR_BUFFER);
        BAD(MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, NULL, 0, MPI_INT, 0, inter), MPI_ERR_BUFFER);
        BAD(MPI_Comm_create_group(inter, MPI_GROUP_EMPTY, 0, &c), MPI_ERR_COMM);
        /* a group with processes of the other side */
        MPI_Comm_remote_group(inter, &g);
        BAD(MPI_Comm_create(inter, g, &c), MPI_ERR_GROUP);
        MPI_Group_free(&g);
        /* beside the root nothing else is looked at; the root is rank 0 of color 1 */
        int ok = MPI_SUCCESS;
        if (color == 1 && me > 0) {
            CHECK_INT(MPI_Bcast(NULL, -1, MPI_DATATYPE_NULL, MPI_PROC_NULL, inter), ok, "Bcast");
            CHECK_INT(MPI_Reduce(NULL, NULL, -1, MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_PROC_NULL, inter),
                      ok, "Reduce");
            CHECK_INT(MPI_Gather(NULL, -1, MPI_DATATYPE_NULL, NULL, -1, MPI_DATATYPE_NULL,
                                 MPI_PROC_NULL, inter),
                      ok, "Gather");
        } else {
            int root = color == 1 ? MPI_ROOT : 0;
            x = 10 + color;
            y = -1;
            CHECK_INT(MPI_Bcast(&x, 1, MPI_INT, root, inter), ok, "Bcast");
            CHECK_INT(x, 11, "what was broadcast");
            CHECK_INT(MPI_Reduce(&x, &y, 1, MPI_INT, MPI_SUM, root, inter), ok, "Reduce");
            CHECK_INT(y, color ? 11 : -1, "what was reduced");
            y = -1;
            CHECK_INT(MPI_Gather(&x, 1, MPI_INT, &y, 1, MPI_INT, root, inter), ok, "Gather");
            CHECK_INT(y, color ? 11 : -1, "what was gathered");
        }
        free(counts);
        /* the processes of a group disagree on which is the high one */
        if (test_size > 2)
            BAD(MPI_Intercomm_merge(inter, me % 2, &c), MPI_ERR_ARG);
    }
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_ARE_FATAL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&intra);
    return test_finish();
}
