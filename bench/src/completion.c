/* What the completion of one of many requests costs: rank 0 has N receives of 4 bytes posted
 * (default 100, 1,000 and 4,000), rank 1 sends their messages, and rank 0 completes all of them by
 * one of four calls over all N requests. In microseconds for one request, the median of 15 batches.
 *
 * "waitany N", "testany N", "waitsome N", "testsome N": by this call.
 *
 * The standard asks for a look at N requests in each call, so the cost may grow with N; it need not.
 *
 * Arguments: numbers of requests. */
#include "bench_mpi.h"

enum { WAITANY, TESTANY, WAITSOME, TESTSOME, MEANS };

static const char *const names[MEANS] = {"waitany", "testany", "waitsome", "testsome"};

typedef struct {
    int means, requests, rank;
    MPI_Request *request;
    int *values, *index;
} Completion;

static int complete_some(Completion *c)
{
    int flag = 1, count = 0;
    switch (c->means) {
    case WAITANY: MPI_Waitany(c->requests, c->request, &c->index[0], MPI_STATUS_IGNORE); return 1;
    case TESTANY: MPI_Testany(c->requests, c->request, &c->index[0], &flag, MPI_STATUS_IGNORE); return flag;
    case WAITSOME: MPI_Waitsome(c->requests, c->request, &count, c->index, MPI_STATUSES_IGNORE); return count;
    default: MPI_Testsome(c->requests, c->request, &count, c->index, MPI_STATUSES_IGNORE); return count;
    }
}

static double rounds(void *arg, long n)
{
    Completion *c = arg;
    double counted = 0;
    for (long i = 0; i < n; i++) {
        if (c->rank == 0)
            for (int r = 0; r < c->requests; r++)
                MPI_Irecv(&c->values[r], 1, MPI_INT, 1, r, MPI_COMM_WORLD, &c->request[r]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (c->rank == 1) {
            /* From the last on: what is complete is far from where the search begins. */
            for (int r = c->requests - 1; r >= 0; r--)
                MPI_Send(&r, 1, MPI_INT, 0, r, MPI_COMM_WORLD);
        } else if (c->rank == 0) {
            double start = MPI_Wtime();
            for (int done = 0; done < c->requests;)
                done += complete_some(c);
            counted += MPI_Wtime() - start;
            for (int r = 0; r < c->requests; r++)
                if (c->values[r] != r)
                    bench_die("receive %d has %d", r, c->values[r]);
        }
    }
    return counted;
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"100", "1000", "4000"};
    double batch[BATCHES];
    char name[40], more[40];
    Completion c;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
    int count = argc > 1 ? argc - 1 : 3;
    for (int i = 0; i < count; i++) {
        c.requests = (int)bench_bytes(argc > 1 ? argv[i + 1] : usual[i]);
        c.request = (MPI_Request *)bench_alloc((size_t)c.requests * sizeof *c.request, 0);
        c.values = (int *)bench_alloc((size_t)c.requests * sizeof *c.values, 0);
        c.index = (int *)bench_alloc((size_t)c.requests * sizeof *c.index, 0);
        for (c.means = 0; c.means < MEANS; c.means++) {
            long n = bench_measure(rounds, &c, 0.02, batch);
            snprintf(name, sizeof name, "%s %d", names[c.means], c.requests);
            snprintf(more, sizeof more, ", \"requests\": %d", c.requests);
            for (int b = 0; b < BATCHES; b++)
                batch[b] *= 1e6 / c.requests;
            if (c.rank == 0)
                bench_print_more(name, 4, 2, batch, "us", n, more);
        }
        free(c.request);
        free(c.values);
        free(c.index);
    }
    MPI_Finalize();
    return 0;
}
