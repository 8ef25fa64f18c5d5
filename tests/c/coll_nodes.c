/* All collectives in all forms on communicators whose ranks are a random choice in random order, so
 * that the ranks of a node lie in them in every way: in blocks, mixed, in unequal numbers, one by
 * one. Arguments: rounds, seed. */
#include "collectives.h"

enum { MAX_SIZE = 64 };

static unsigned all; /* one generator for all ranks */

static int among(int n)
{
    return (int)(coll_random(&all) % (unsigned)n);
}

/* Some ranks in some order, or all by node if `blocks` says so. Every rank draws the same; one that
 * is not chosen gets MPI_COMM_NULL. */
static MPI_Comm draw_comm(int blocks)
{
    MPI_Comm comm, node;
    int keys[MAX_SIZE], color = 0, key, first;
    for (int i = 0; i < test_size; i++)
        keys[i] = i;
    for (int i = test_size - 1; i > 0; i--) {
        int j = among(i + 1), k = keys[i];
        keys[i] = keys[j];
        keys[j] = k;
    }
    int left_out = test_size > 2 ? among(test_size - 1) : 0;
    key = keys[test_rank];
    if (key < left_out)
        color = MPI_UNDEFINED;
    if (blocks) {
        /* by the smallest key on the node, then within the node */
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
        MPI_Allreduce(&key, &first, 1, MPI_INT, MPI_MIN, node);
        MPI_Comm_free(&node);
        key += first * MAX_SIZE;
    }
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm);
    return comm;
}

static void run(Coll *c, const char *what)
{
    for (int form = BLOCKING; form <= PERSISTENT; form++) {
        MPI_Request request = MPI_REQUEST_NULL;
        coll_fill(c, coll_random(&all));
        coll_call(c, form, &request);
        if (form == PERSISTENT)
            MPI_Start(&request);
        if (form != BLOCKING)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        coll_check(c, what);
        if (form == PERSISTENT)
            MPI_Request_free(&request);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 3, 40, 500, 4000, 30000};
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    all = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    if (test_size > MAX_SIZE) {
        CHECK(0, "%d ranks are too many", test_size);
        return test_finish();
    }
    coll_init();
    for (int round = 0; round < rounds; round++) {
        MPI_Comm comm = draw_comm(round % 3 == 2);
        for (int kind = 0; kind < COLL_KINDS; kind++) {
            int in_place = among(2), user_op = among(2), stride = 1 + among(2);
            unsigned draw = coll_random(&all), seed = coll_random(&all);
            int n = counts[draw % 7];
            if (comm != MPI_COMM_NULL) {
                Coll c;
                char what[64];
                int size;
                MPI_Comm_size(comm, &size);
                all = seed;
                coll_make(&c, kind, n, (int)(draw / 7 % (unsigned)size), stride, in_place, user_op, comm);
                snprintf(what, sizeof what, "round %d of random placements", round);
                run(&c, what);
                coll_drop(&c);
            }
            all = seed;
        }
        if (comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
    }
    coll_end();
    return test_finish();
}
