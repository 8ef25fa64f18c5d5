/* Many sends between threads: T threads of every rank, each with a communicator of its own for each
 * pair of ranks that it talks in, send WINDOW messages to the same thread of every other rank, and
 * receive as many: MPI_Isend, MPI_Irecv, MPI_Waitall, with more threads than cores (after MPICH's
 * test multisend4).
 *
 *   thread sends      microseconds a message that a rank sends, wall clock
 *   thread sends cpu  processor time (user and system) of a message, in microseconds: what waiting by
 *                     spinning, yields and wake-ups costs as well
 *
 * Every message carries its number and is checked. argv: [--threads T] [--window N] [--rounds N]
 * BYTES... */
#include "compute.h"

#include <pthread.h>
#include <sys/resource.h>

enum { MOST = 64 };
static int rank, ranks, threads, window;
static long bytes;
static long rounds;
static MPI_Comm (*comms)[MOST]; /* of thread t with rank r: comms[t][r] */

struct lane {
    int thread;
    long number;
    char *out, *in;
    MPI_Request *requests;
};

static void exchange(struct lane *lane)
{
    int n = 0;
    for (int peer = 0; peer < ranks; peer++)
        for (int i = 0; peer != rank && i < window; i++) {
            long at = ((long)peer * window + i) * bytes;
            MPI_Irecv(lane->in + at, (int)bytes, MPI_BYTE, peer, i, comms[lane->thread][peer],
                      &lane->requests[n++]);
        }
    for (int peer = 0; peer < ranks; peer++)
        for (int i = 0; peer != rank && i < window; i++) {
            long at = ((long)peer * window + i) * bytes;
            bench_stamp(lane->out + at, (size_t)bytes, lane->number + i);
            MPI_Isend(lane->out + at, (int)bytes, MPI_BYTE, peer, i, comms[lane->thread][peer],
                      &lane->requests[n++]);
        }
    MPI_Waitall(n, lane->requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < ranks; peer++)
        for (int i = 0; peer != rank && i < window; i++) {
            long at = ((long)peer * window + i) * bytes;
            bench_check(lane->in + at, (size_t)bytes, lane->number + i);
        }
    lane->number += window;
}

static void *work_of(void *arg)
{
    for (long i = 0; i < rounds; i++)
        exchange(arg);
    return NULL;
}

static double processor_time(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void measure(void)
{
    double wall[BATCHES], cpu[BATCHES];
    pthread_t id[MOST];
    struct lane lanes[MOST];
    size_t extent = (size_t)(ranks * window * bytes);
    for (int t = 0; t < threads; t++) {
        lanes[t].thread = t;
        lanes[t].number = 0;
        lanes[t].out = bench_alloc(extent, 0);
        lanes[t].in = bench_alloc(extent, 0);
        lanes[t].requests = allocate((size_t)(2 * ranks * window) * sizeof(MPI_Request));
    }
    double sent = (double)rounds * threads * window * (ranks - 1);
    for (int b = -1; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now(), used = processor_time(), all = 0;
        for (int t = 1; t < threads; t++)
            if (pthread_create(&id[t], NULL, work_of, &lanes[t]))
                bench_die("no thread");
        work_of(&lanes[0]);
        for (int t = 1; t < threads; t++)
            pthread_join(id[t], NULL);
        double took = now() - start;
        used = processor_time() - used;
        MPI_Allreduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (b < 0)
            continue; /* warms up */
        wall[b] = took / sent * 1e6;
        cpu[b] = all / sent / ranks * 1e6;
    }
    if (rank == 0) {
        bench_print("thread sends", bytes, ranks, wall, "us", rounds);
        bench_print("thread sends cpu", bytes, ranks, cpu, "us", rounds);
    }
    for (int t = 0; t < threads; t++) {
        free(lanes[t].out);
        free(lanes[t].in);
        free(lanes[t].requests);
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (provided < MPI_THREAD_MULTIPLE)
        bench_die("the library has not MPI_THREAD_MULTIPLE");
    threads = (int)bench_option_bytes(&argc, argv, "--threads", 4);
    window = (int)bench_option_bytes(&argc, argv, "--window", 16);
    rounds = bench_option_bytes(&argc, argv, "--rounds", 200);
    if (threads < 1 || threads > MOST || ranks > MOST || ranks < 2 || window < 1)
        bench_die("2 to %d ranks, 1 to %d threads, a window of 1 or more", MOST, MOST);
    comms = allocate((size_t)threads * sizeof *comms);
    for (int t = 0; t < threads; t++)
        for (int r = 0; r < ranks; r++)
            comms[t][r] = MPI_COMM_NULL;
    /* A communicator for each pair of ranks and each thread, made in one order everywhere. */
    for (int t = 0; t < threads; t++)
        for (int a = 0; a < ranks; a++)
            for (int b = a + 1; b < ranks; b++) {
                MPI_Comm comm;
                MPI_Comm_dup(MPI_COMM_WORLD, &comm);
                if (rank == a)
                    comms[t][b] = comm;
                else if (rank == b)
                    comms[t][a] = comm;
                else
                    MPI_Comm_free(&comm);
            }
    if (argc < 2) {
        bytes = 8;
        measure();
    }
    for (int i = 1; i < argc; i++) {
        bytes = bench_bytes(argv[i]);
        measure();
    }
    for (int t = 0; t < threads; t++)
        for (int r = 0; r < ranks; r++)
            if (comms[t][r] != MPI_COMM_NULL)
                MPI_Comm_free(&comms[t][r]);
    free(comms);
    MPI_Finalize();
    return 0;
}
