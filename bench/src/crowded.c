/* More to do than cores, or than one message at a time.
 *
 *   spinning threads   each of P ranks has P threads; thread t exchanges a message with rank t (MPI_Isend,
 *                      MPI_Irecv, MPI_Waitall), after a barrier of the rank's threads that neither sleeps nor
 *                      yields (as in MPICH's test multisend4). Microseconds of a round; the barrier's threads
 *                      keep the cores from those that communicate
 *   posted at once     rank 0 sends 100 messages to rank 1, all posted by both before one MPI_Waitall, from and to
 *                      buffers of their own. Microseconds for all
 *
 * Every message carries its number and is checked. argv: threads or posted, then BYTES... */
#include "bench_mpi.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST = 16, MESSAGES = 100, ROUNDS = 10 };

static int rank, ranks;
static long bytes;
static char *out, *in;
static atomic_int arrived, turn;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static long first_number;

static void meet(void)
{
    int mine = turn;
    if (atomic_fetch_add(&arrived, 1) == ranks - 1) {
        arrived = 0;
        turn++;
        return;
    }
    while (turn == mine) {
        pthread_mutex_lock(&one);
        pthread_mutex_unlock(&one);
    }
}

static void *exchange(void *arg)
{
    int peer = (int)(long)arg;
    char *mine = out + peer * bytes, *theirs = in + peer * bytes;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request request[2];
        meet();
        bench_stamp(mine, (size_t)bytes, first_number + i);
        MPI_Isend(mine, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request[0]);
        MPI_Irecv(theirs, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        bench_check(theirs, (size_t)bytes, first_number + i);
    }
    return NULL;
}

static double spinning_threads(void)
{
    pthread_t id[MOST];
    double start = MPI_Wtime();
    for (long t = 0; t < ranks; t++)
        if (pthread_create(&id[t], NULL, exchange, (void *)t))
            bench_die("no thread");
    for (int t = 0; t < ranks; t++)
        pthread_join(id[t], NULL);
    first_number += ROUNDS;
    return (MPI_Wtime() - start) / ROUNDS * 1e6;
}

static double posted_at_once(void)
{
    MPI_Request request[MESSAGES];
    char *buffer = rank ? in : out;
    for (int i = 0; i < MESSAGES && !rank; i++)
        bench_stamp(out + i * bytes, (size_t)bytes, first_number + i);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < MESSAGES; i++)
        if (rank)
            MPI_Irecv(buffer + i * bytes, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request[i]);
        else
            MPI_Isend(buffer + i * bytes, (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request[i]);
    MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    double took = MPI_Wtime() - start;
    for (int i = 0; i < MESSAGES && rank; i++)
        bench_check(in + i * bytes, (size_t)bytes, first_number + i);
    first_number += MESSAGES;
    return took * 1e6;
}

int main(int argc, char **argv)
{
    int provided, threads = argc > 1 && argv[1][0] == 't';
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3 || ranks > MOST || (!threads && ranks != 2))
        bench_die("threads or posted, and sizes; 2 ranks for posted, %d at most", MOST);
    for (int i = 2; i < argc; i++) {
        double batch[BATCHES];
        bytes = bench_bytes(argv[i]);
        size_t all = (size_t)bytes * MESSAGES;
        out = bench_alloc(all, 0);
        in = bench_alloc(all, 0);
        for (int b = -1; b < BATCHES; b++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double took = threads ? spinning_threads() : posted_at_once();
            if (b >= 0) /* the first warms up */
                batch[b] = took;
        }
        /* The receiver's time: the sender may be done before. */
        MPI_Bcast(batch, BATCHES, MPI_DOUBLE, 1, MPI_COMM_WORLD);
        if (rank == 0)
            bench_print(threads ? "spinning threads" : "posted at once", bytes, ranks, batch, "us", threads ? ROUNDS : 1);
        free(out);
        free(in);
    }
    MPI_Finalize();
    return 0;
}
