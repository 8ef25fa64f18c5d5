/* MPI_THREAD_MULTIPLE: four threads of each rank exchange at once, each on a communicator of its
 * own, then all on one communicator with a tag of their own, all sizes; and collectives on the
 * threads' own communicators. argv[1]: rounds. */
#include "test.h"

#include <pthread.h>

enum { THREADS = 4 };
static MPI_Comm own[THREADS];
static int rounds, failures[THREADS], shared_comm;

static void *work(void *arg)
{
    static const int sizes[] = {0, 1, 8, 64, 1000, 5000, 17000, 70000, 300000};
    int t = (int)(intptr_t)arg, bad = 0;
    MPI_Comm c = shared_comm ? MPI_COMM_WORLD : own[t];
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    unsigned char *out = test_alloc(300000), *in = test_alloc(300000);
    for (int i = 0; i < rounds; i++) {
        size_t n = (size_t)sizes[(i + t) % 9];
        uint64_t base = (uint64_t)(t * 100000 + i);
        MPI_Status st;
        int count = -1;
        test_fill(out, n, base * 64 + (uint64_t)test_rank);
        if (i % 3 == 0) {
            MPI_Request r;
            MPI_Irecv(in, 300000, MPI_BYTE, left, t, c, &r);
            MPI_Ssend(out, (int)n, MPI_BYTE, right, t, c);
            MPI_Wait(&r, &st);
        } else {
            MPI_Sendrecv(out, (int)n, MPI_BYTE, right, t, in, 300000, MPI_BYTE,
                         i % 3 == 1 || shared_comm ? left : MPI_ANY_SOURCE, t, c, &st);
        }
        MPI_Get_count(&st, MPI_BYTE, &count);
        bad += count != (int)n || st.MPI_TAG != t || st.MPI_SOURCE != left;
        bad += test_verify(in, n, base * 64 + (uint64_t)left) != n;
        if (!shared_comm && i % 7 == 0) {
            int s = 0, x = t + test_rank;
            MPI_Allreduce(&x, &s, 1, MPI_INT, MPI_SUM, c);
            bad += s != t * test_size + test_size * (test_size - 1) / 2;
        }
    }
    failures[t] = bad;
    free(in);
    free(out);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1, main_thread = 0, level = -1;
    pthread_t th[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    CHECK_INT(provided, MPI_THREAD_MULTIPLE, "thread level provided");
    MPI_Query_thread(&level);
    CHECK_INT(level, provided, "Query_thread");
    MPI_Is_thread_main(&main_thread);
    CHECK_INT(main_thread, 1, "Is_thread_main of the main thread");
    rounds = argc > 1 ? atoi(argv[1]) : 100;
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[t]);
    for (shared_comm = 0; shared_comm < 2; shared_comm++) {
        for (int t = 0; t < THREADS; t++)
            pthread_create(&th[t], NULL, work, (void *)(intptr_t)t);
        for (int t = 0; t < THREADS; t++) {
            pthread_join(th[t], NULL);
            CHECK(failures[t] == 0, "thread %d, %s: %d wrong messages", t,
                  shared_comm ? "one communicator" : "own communicator", failures[t]);
        }
    }
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&own[t]);
    return test_finish();
}
