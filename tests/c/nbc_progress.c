/* Non-blocking collectives advance in any call that makes progress: rank 0 completes each
 * collective and then sends a message to the others, who until it has come make one sort of call
 * only, none of them on the collective's request. */
#include "collectives.h"

enum { IPROBE, IMPROBE, TEST_OTHER, RECV, WAIT_OTHER, PROBE, TESTANY_OTHERS, BLOCKING_COLLECTIVE, WAYS };
static const char *const ways[WAYS] = {"Iprobe", "Improbe", "Test of another", "Recv", "Wait for another", "Probe",
                                       "Testany of others", "a blocking collective"};

/* Returns when rank `from` has sent its word, or has entered the barrier. */
static void await(int way, int from, int tag, MPI_Comm comm)
{
    int word = -1, done = 0, index;
    MPI_Request r[2];
    MPI_Message m;
    switch (way) {
    case IPROBE:
        while (!done)
            MPI_Iprobe(from, tag, comm, &done, MPI_STATUS_IGNORE);
        MPI_Recv(&word, 1, MPI_INT, from, tag, comm, MPI_STATUS_IGNORE);
        break;
    case IMPROBE:
        while (!done)
            MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &done, &m, MPI_STATUS_IGNORE);
        MPI_Mrecv(&word, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
        break;
    case TEST_OTHER:
        MPI_Irecv(&word, 1, MPI_INT, from, tag, comm, &r[0]);
        while (!done)
            MPI_Test(&r[0], &done, MPI_STATUS_IGNORE);
        break;
    case RECV:
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, tag, comm, MPI_STATUS_IGNORE);
        break;
    case WAIT_OTHER:
        MPI_Irecv(&word, 1, MPI_INT, from, MPI_ANY_TAG, comm, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        break;
    case PROBE:
        MPI_Probe(from, tag, comm, MPI_STATUS_IGNORE);
        MPI_Recv(&word, 1, MPI_INT, from, tag, comm, MPI_STATUS_IGNORE);
        break;
    case TESTANY_OTHERS:
        MPI_Irecv(&word, 1, MPI_INT, from, tag, comm, &r[0]);
        r[1] = MPI_REQUEST_NULL;
        while (!done)
            MPI_Testany(2, r, &index, &done, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Barrier(comm);
        return;
    }
    CHECK_INT(word, tag, "the word that ends the waiting");
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    coll_init();
    MPI_Comm comm, other;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    static const int counts[] = {1, 50, 20000};
    for (int way = 0; way < WAYS; way++)
        for (int kind = 0; kind < COLL_KINDS; kind++)
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                int first = (way + kind) % test_size, tag = way * 100 + kind;
                /* Two under way: the one that is waited for is the younger one. */
                Coll c[2];
                MPI_Request r[2];
                for (int k = 0; k < 2; k++) {
                    coll_make(&c[k], kind, counts[i] / (1 + k), k % test_size, 1, 0, 1, comm);
                    coll_fill(&c[k], (unsigned)(tag + k));
                    coll_call(&c[k], NONBLOCKING, &r[k]);
                }
                if (test_rank == first) {
                    MPI_Wait(&r[1], MPI_STATUS_IGNORE);
                    if (way == BLOCKING_COLLECTIVE)
                        MPI_Barrier(other);
                    else
                        for (int to = 0; to < test_size; to++)
                            if (to != first)
                                MPI_Send(&tag, 1, MPI_INT, to, tag, other);
                } else {
                    await(way, first, tag, other);
                }
                MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
                coll_check(&c[0], ways[way]);
                coll_check(&c[1], ways[way]);
                coll_drop(&c[0]);
                coll_drop(&c[1]);
            }
    MPI_Comm_free(&comm);
    MPI_Comm_free(&other);
    coll_end();
    return test_finish();
}
