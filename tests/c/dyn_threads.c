/* MPI_THREAD_MULTIPLE: threads of a process that spawn at once on communicators of their own, while
 * another one sends messages. */
#include "spawned.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 2 };

static MPI_Comm comms[THREADS + 1];
static atomic_int running;

static void *spawns(void *arg)
{
    int which = *(int *)arg;
    char number[16];
    snprintf(number, sizeof number, "%d", which);
    for (int round = 0; round < 3; round++) {
        MPI_Comm inter = spawn_self(1 + which, number, NULL, NULL, 0, comms[which]), all;
        int got = -1;
        MPI_Intercomm_merge(inter, 0, &all);
        MPI_Bcast(&got, 1, MPI_INT, test_size, all);
        CHECK_INT(got, which, "what the children are");
        MPI_Comm_free(&all);
        spawned_end(&inter);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void child(int which)
{
    MPI_Comm all;
    int remote;
    CHECK_INT(test_size, 1 + which, "number of children");
    MPI_Comm_remote_size(spawned_parent, &remote);
    MPI_Intercomm_merge(spawned_parent, 1, &all);
    MPI_Bcast(&which, 1, MPI_INT, remote, all);
    MPI_Comm_free(&all);
}

/* Messages among the ranks as long as threads spawn. */
static void *talks(void *arg)
{
    MPI_Comm comm = comms[THREADS];
    int more = 1;
    (void)arg;
    while (more) {
        int mine = atomic_load(&running);
        MPI_Allreduce(&mine, &more, 1, MPI_INT, MPI_MAX, comm);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_MULTIPLE);
    if (spawned_parent != MPI_COMM_NULL) {
        child(atoi(argv[1]));
        return spawned_finish();
    }
    pthread_t threads[THREADS + 1];
    int numbers[THREADS + 1] = {0, 1, 2};
    for (int i = 0; i <= THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    atomic_store(&running, THREADS);
    for (int i = 0; i <= THREADS; i++)
        pthread_create(&threads[i], NULL, i < THREADS ? spawns : talks, &numbers[i]);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i <= THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return test_finish();
}
