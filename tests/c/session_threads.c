/* Four threads, each with its own sessions and string tag, open, talk and finalize at the same
 * time, while the main thread uses the world model. */
#include "test.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20 };

static void *run(void *argument)
{
    int id = (int)(intptr_t)argument, *bad = malloc(sizeof *bad);
    char tag[64];
    *bad = 0;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        int value = 1000 * id + round, total = -1;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        snprintf(tag, sizeof tag, "thread %d, round %d", id, round);
        MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Group_free(&group);
        MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, comm);
        *bad += total != value * test_size;
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    return bad;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    if (provided < MPI_THREAD_MULTIPLE)
        return test_skip("no MPI_THREAD_MULTIPLE");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
    for (int round = 0; round < ROUNDS; round++) {
        int total = -1;
        MPI_Allreduce(&round, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_INT(total, round * test_size, "sum in the world");
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        CHECK_INT(*(int *)bad, 0, "wrong sums in a thread");
        free(bad);
    }
    return test_finish();
}
