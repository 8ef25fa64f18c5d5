/* Threads: T threads of each of two ranks play ping-pong at once, each on a communicator of its
 * own. Microseconds per message of all threads together, for 1 and 4 threads. argv: messages per
 * thread. */
#include "bench.h"

#include <mpi.h>
#include <pthread.h>

enum { MOST = 4 };
static MPI_Comm comms[MOST];
static int messages, rank;

static void *play(void *arg)
{
    MPI_Comm c = comms[(long)arg];
    char b[8] = {0};
    for (int i = 0; i < messages; i++)
        if (rank == 0) {
            MPI_Send(b, 8, MPI_BYTE, 1, 0, c);
            MPI_Recv(b, 8, MPI_BYTE, 1, 0, c, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(b, 8, MPI_BYTE, 0, 0, c, MPI_STATUS_IGNORE);
            MPI_Send(b, 8, MPI_BYTE, 0, 0, c);
        }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t id[MOST];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    messages = argc > 1 ? atoi(argv[1]) : 2000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int t = 0; t < MOST; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    for (int threads = 1; threads <= MOST; threads += MOST - 1) {
        double batch[BATCHES];
        for (int b = 0; b < BATCHES; b++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            for (long t = 1; t < threads; t++)
                pthread_create(&id[t], NULL, play, (void *)t);
            play((void *)0);
            for (int t = 1; t < threads; t++)
                pthread_join(id[t], NULL);
            batch[b] = (MPI_Wtime() - start) / (2.0 * messages * threads) * 1e6;
        }
        if (rank == 0)
            bench_print(threads == 1 ? "1 thread" : "4 threads", 8, 2, batch, "us", messages);
    }
    MPI_Finalize();
    return 0;
}
