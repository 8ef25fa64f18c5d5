/* Threads that send at the same time, one-sided operations, an inter-communicator and a child
 * process, all of known amounts (tests/jobs/profile.rs). Two ranks. */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, MESSAGES = 200 };

static int rank;
static MPI_Comm comms[THREADS];

static void *exchange(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    char out[64] = {0}, in[64];
    for (int i = 0; i < MESSAGES; i++)
        MPI_Sendrecv(out, 64, MPI_BYTE, 1 - rank, i, in, 64, MPI_BYTE, 1 - rank, i, comm,
                     MPI_STATUS_IGNORE); /* site: thread */
    return NULL;
}

static void one_sided(void) {
    int *memory, values[4] = {1, 2, 3, 4};
    MPI_Win win;
    MPI_Win_allocate(16, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_fence(0, win);
    if (rank == 0) MPI_Put(values, 4, MPI_INT, 1, 0, 4, MPI_INT, win);
    MPI_Win_fence(0, win);
    if (rank == 1) MPI_Get(values, 2, MPI_INT, 0, 0, 2, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* In the inter-communicator rank 0 names the other group's only process. */
static void two_groups(void) {
    MPI_Comm own, inter;
    short word = 1;
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, 1 - rank, 3, &inter);
    if (rank == 0) MPI_Send(&word, 1, MPI_SHORT, 0, 4, inter);
    if (rank == 1) MPI_Recv(&word, 1, MPI_SHORT, 0, 4, inter, MPI_STATUS_IGNORE);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&own);
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int provided, code;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, exchange, &comms[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    one_sided();
    two_groups();
    /* A child that ends leaves no record in the place of its parent's. */
    pid_t child = fork();
    if (child == 0) exit(0);
    waitpid(child, &code, 0);
    /* An error that the program expects is its own, with the profiler as without. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Send(NULL, 1, MPI_INT, 77, 0, MPI_COMM_WORLD) == MPI_SUCCESS) return 1;
    MPI_Finalize();
    return 0;
}
