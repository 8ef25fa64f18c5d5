/* Blocking collectives by several threads at once, each on communicators of its own, which it makes
 * and frees as it goes; one thread more exchanges messages all the while. */
#include "collectives.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 25 };

typedef struct {
    int number;
    MPI_Comm comm;
} Worker;

static int among(unsigned *state, int n)
{
    return (int)(coll_random(state) % (unsigned)n);
}

static void *work(void *argument)
{
    static const int counts[] = {0, 1, 6, 40, 300, 2100, 9000};
    Worker *w = argument;
    unsigned all = (unsigned)w->number + 1u;
    MPI_Comm mine = MPI_COMM_NULL;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 6 == 0) {
            if (mine != MPI_COMM_NULL)
                MPI_Comm_free(&mine);
            MPI_Comm_split(w->comm, round % 4 ? test_rank % 2 : 0, round % 12 ? -test_rank : test_rank, &mine);
        }
        for (int i = 0; i < 2; i++) {
            MPI_Comm comm = i ? mine : w->comm;
            int size, kind = among(&all, COLL_KINDS), n = counts[among(&all, 7)], in_place = among(&all, 2);
            int stride = 1 + among(&all, 2), user = among(&all, 2);
            unsigned root = coll_random(&all);
            Coll c;
            MPI_Comm_size(comm, &size);
            coll_make(&c, kind, n, (int)(root % (unsigned)size), stride, in_place, user, comm);
            for (int again = n < 100 ? 6 : 1; again > 0; again--) {
                coll_fill(&c, (unsigned)(w->number * 100000 + round * 100 + again));
                coll_call(&c, BLOCKING, NULL);
                coll_check(&c, "threads in blocking collectives");
            }
            coll_drop(&c);
        }
    }
    MPI_Comm_free(&mine);
    return NULL;
}

static void *exchange(void *argument)
{
    enum { BYTES = 200000 };
    Worker *w = argument;
    unsigned char *out = test_alloc(BYTES), *in = test_alloc(BYTES);
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 3 ? 100 : BYTES;
        test_fill(out, (size_t)bytes, (uint64_t)(round * 100 + test_rank));
        MPI_Sendrecv(out, bytes, MPI_BYTE, right, round, in, bytes, MPI_BYTE, left, round, w->comm, MPI_STATUS_IGNORE);
        CHECK(test_verify(in, (size_t)bytes, (uint64_t)(round * 100 + left)) == (size_t)bytes,
              "a message of %d bytes among threads in collectives differs", bytes);
    }
    free(out);
    free(in);
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
        if (pthread_create(&threads[i], NULL, i + 1 < THREADS ? work : exchange, &workers[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 4);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MPI_Comm_free(&workers[i].comm);
    }
    coll_end();
    return test_finish();
}
