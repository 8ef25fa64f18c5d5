/* Threads mark the partitions of one send as ready, while the main thread waits for it and the
 * receiver's threads ask for arrival (MPI 5.0, 4.2.1): of long partitions, and of short ones, which
 * may travel together. */
#include "test.h"
#include <pthread.h>

enum { THREADS = 4, EACH = 3, PARTITIONS = THREADS * EACH, ROUNDS = 20 };

typedef struct {
    int number;
    MPI_Request request;
    unsigned char *buffer;
    size_t bytes; /* of a partition */
    int round, from;
} Part;

static void *ready(void *argument)
{
    Part *part = argument;
    for (int i = 0; i < EACH; i++) {
        int p = i * THREADS + part->number;
        test_fill(part->buffer + (size_t)p * part->bytes, part->bytes,
                  (uint64_t)(test_rank * 10000 + part->round * 100 + p));
        MPI_Pready(p, part->request);
    }
    return NULL;
}

static void *await(void *argument)
{
    Part *part = argument;
    for (int i = 0; i < EACH; i++) {
        int flag = 0, p = part->number * EACH + i;
        while (!flag)
            MPI_Parrived(part->request, p, &flag);
        CHECK_INT(test_verify(part->buffer + (size_t)p * part->bytes, part->bytes,
                              (uint64_t)(part->from * 10000 + part->round * 100 + p)),
                  part->bytes, "first differing byte of a partition that has arrived");
    }
    return NULL;
}

static void ring(size_t bytes)
{
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    unsigned char *out = test_alloc(PARTITIONS * bytes), *in = test_alloc(PARTITIONS * bytes);
    MPI_Request s, r;
    MPI_Psend_init(out, PARTITIONS, (MPI_Count)bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &s);
    MPI_Precv_init(in, PARTITIONS, (MPI_Count)bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[2 * THREADS];
        Part parts[2 * THREADS];
        MPI_Start(&r);
        MPI_Start(&s);
        for (int t = 0; t < 2 * THREADS; t++) {
            parts[t] = t < THREADS ? (Part){t, s, out, bytes, round, to} : (Part){t - THREADS, r, in, bytes, round, from};
            pthread_create(&threads[t], NULL, t < THREADS ? ready : await, &parts[t]);
        }
        MPI_Wait(&s, MPI_STATUS_IGNORE);
        for (int t = 0; t < 2 * THREADS; t++)
            pthread_join(threads[t], NULL);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    if (provided < MPI_THREAD_MULTIPLE)
        return test_skip("no MPI_THREAD_MULTIPLE");
    ring(30000);
    ring(40);
    return test_finish();
}
