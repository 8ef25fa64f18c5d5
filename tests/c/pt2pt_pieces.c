/* Partitions whose neighbours become ready only when they have arrived: none may wait for the others. Short ones travel
 * together otherwise (MPI 5.0, 4.2.1). Each rank sends to the next and receives from the one before. */
#include "test.h"
#include <pthread.h>
#include <time.h>

enum { ELEMENTS = 48, REPLY = 9 };

static int in[ELEMENTS][2], out[ELEMENTS];
static int to, from;
static MPI_Datatype spread; /* MPI_INT with a gap behind it */

static void arrive(MPI_Request request, int partition)
{
    for (int flag = 0; !flag;)
        CHECK_INT(MPI_Parrived(request, partition, &flag), MPI_SUCCESS, "MPI_Parrived");
}

static void check_elements(int first, int end, int round)
{
    for (int i = first; i < end; i++)
        CHECK_INT(in[i][0], from * 1000 + round * 100 + i, "an element");
}

/* The sender's `sent` partitions become ready one after another, `step` apart, each when the receiver has all of its
 * `received` partitions that those before it cover. */
static void one_by_one(int sent, int received, int step)
{
    char covered[ELEMENTS];
    MPI_Request request[2];
    MPI_Precv_init(in, received, ELEMENTS / received, spread, from, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request[0]);
    MPI_Psend_init(out, sent, ELEMENTS / sent, MPI_INT, to, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request[1]);
    for (int round = 0; round < 3; round++) {
        memset(in, 0, sizeof in);
        memset(covered, 0, sizeof covered);
        for (int i = 0; i < ELEMENTS; i++)
            out[i] = test_rank * 1000 + round * 100 + i;
        MPI_Startall(2, request);
        for (int k = 0; k < sent; k++) {
            int partition = (k * step + round) % sent, each = ELEMENTS / sent, wide = ELEMENTS / received;
            MPI_Pready(partition, request[1]);
            memset(covered + partition * each, 1, (size_t)each);
            for (int p = 0; p < received; p++)
                if (!memchr(covered + p * wide, 0, (size_t)wide)) {
                    arrive(request[0], p);
                    check_elements(p * wide, (p + 1) * wide, round);
                }
        }
        CHECK_INT(MPI_Waitall(2, request, MPI_STATUSES_IGNORE), MPI_SUCCESS, "MPI_Waitall");
        check_elements(0, ELEMENTS, round);
    }
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);
}

static void *await_reply(void *arg)
{
    (void)arg;
    MPI_Recv(NULL, 0, MPI_INT, 1, REPLY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

/* Rank 0 waits outside of MPI for a thread that sleeps in it, and whose message comes when a partition has arrived that
 * became ready meanwhile. */
static void while_another_sleeps(void)
{
    struct timespec moment = {0, 30000000};
    pthread_t sleeper;
    MPI_Request request;
    if (test_rank == 1) {
        MPI_Precv_init(in, 8, ELEMENTS / 8, spread, 0, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        arrive(request, 3);
        MPI_Send(NULL, 0, MPI_INT, 0, REPLY, MPI_COMM_WORLD);
    } else {
        MPI_Psend_init(out, 8, ELEMENTS / 8, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        pthread_create(&sleeper, NULL, await_reply, NULL);
        nanosleep(&moment, NULL);
        MPI_Pready(3, request);
        pthread_join(sleeper, NULL);
        MPI_Pready_range(0, 2, request);
        MPI_Pready_range(4, 7, request);
    }
    CHECK_INT(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "MPI_Wait");
    for (int i = 0; i < ELEMENTS && test_rank == 1; i++)
        CHECK_INT(in[i][0], 200 + i, "an element");
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
    MPI_Type_commit(&spread);
    one_by_one(2, 6, 1);
    one_by_one(8, 8, 3);
    one_by_one(16, 3, 5);
    one_by_one(3, 16, 2);
    one_by_one(12, 1, 5);
    if (argc > 1 && test_rank < 2)
        while_another_sleeps();
    MPI_Type_free(&spread);
    return test_finish();
}
