/* Non-blocking and persistent collectives by several threads at once, each on a communicator of its
 * own: one completes what another's call has advanced. */
#include "collectives.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 12 };

typedef struct {
    int number;
    MPI_Comm comm;
} Worker;

static void *work(void *argument)
{
    Worker *w = argument;
    Coll c[COLL_KINDS], kept;
    MPI_Request r[COLL_KINDS], again;
    unsigned own = (unsigned)(w->number * 100 + test_rank);
    coll_make(&kept, ALLREDUCE, 300, 0, 1, 0, 1, w->comm);
    coll_call(&kept, PERSISTENT, &again);
    for (int round = 0; round < ROUNDS; round++) {
        int left = COLL_KINDS;
        coll_fill(&kept, (unsigned)round);
        MPI_Start(&again);
        for (int kind = 0; kind < COLL_KINDS; kind++) {
            coll_make(&c[kind], kind, round % 3 ? 20 : 2000, (kind + round) % test_size, 1, 0, 1, w->comm);
            coll_fill(&c[kind], (unsigned)(w->number * 1000 + round * 20 + kind));
            coll_call(&c[kind], NONBLOCKING, &r[kind]);
        }
        while (left) {
            int i = (int)(coll_random(&own) % COLL_KINDS), done = 0;
            if (r[i] == MPI_REQUEST_NULL)
                continue;
            if (coll_random(&own) % 2)
                MPI_Wait(&r[i], MPI_STATUS_IGNORE);
            else
                MPI_Test(&r[i], &done, MPI_STATUS_IGNORE);
            left -= r[i] == MPI_REQUEST_NULL;
        }
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        coll_check(&kept, "persistent, several threads");
        for (int kind = 0; kind < COLL_KINDS; kind++) {
            coll_check(&c[kind], "several threads");
            coll_drop(&c[kind]);
        }
    }
    MPI_Request_free(&again);
    coll_drop(&kept);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1;
    pthread_t threads[THREADS];
    Worker workers[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    CHECK_INT(provided, MPI_THREAD_MULTIPLE, "provided thread level");
    coll_init();
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 4);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MPI_Comm_free(&workers[i].comm);
    }
    coll_end();
    return test_finish();
}
