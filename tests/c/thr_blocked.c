/* MPI_THREAD_MULTIPLE: a thread blocked in a receive, a probe or a wait does not keep the others
 * from making progress: what it waits for is sent only after another thread has done its work. */
#include "test.h"

#include <pthread.h>

static int right, left, got[3];
static MPI_Comm blocked_comm;
static int is_main = -1;

static void *receive(void *arg)
{
    (void)arg;
    MPI_Is_thread_main(&is_main);
    MPI_Recv(&got[0], 1, MPI_INT, left, 1, blocked_comm, MPI_STATUS_IGNORE);
    return NULL;
}

static void *probe(void *arg)
{
    (void)arg;
    MPI_Status st;
    MPI_Probe(left, 2, blocked_comm, &st);
    MPI_Recv(&got[1], 1, MPI_INT, left, 2, blocked_comm, &st);
    return NULL;
}

static void *wait_any(void *arg)
{
    (void)arg;
    MPI_Request r[2];
    int never = 0, k = -1;
    MPI_Irecv(&never, 1, MPI_INT, left, 99, blocked_comm, &r[0]);
    MPI_Irecv(&got[2], 1, MPI_INT, MPI_ANY_SOURCE, 3, blocked_comm, &r[1]);
    MPI_Waitany(2, r, &k, MPI_STATUS_IGNORE);
    if (k != 1)
        got[2] = -5;
    MPI_Cancel(&r[0]);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    CHECK_INT(provided, MPI_THREAD_MULTIPLE, "thread level provided");
    right = (test_rank + 1) % test_size;
    left = (test_rank + test_size - 1) % test_size;
    for (int same = 0; same < 2; same++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &blocked_comm);
        MPI_Comm busy = same ? blocked_comm : MPI_COMM_WORLD;
        pthread_t th[3];
        memset(got, 0xFF, sizeof got);
        pthread_create(&th[0], NULL, receive, NULL);
        pthread_create(&th[1], NULL, probe, NULL);
        pthread_create(&th[2], NULL, wait_any, NULL);
        static unsigned char big[500000], back[500000];
        for (int i = 0; i < 50; i++) { /* small and large, while the three are blocked */
            size_t n = i % 2 ? sizeof big : 100;
            test_fill(big, n, (uint64_t)(i * 64 + test_rank));
            MPI_Sendrecv(big, (int)n, MPI_BYTE, right, 50, back, (int)n, MPI_BYTE, left, 50, busy,
                         MPI_STATUS_IGNORE);
            CHECK(test_verify(back, n, (uint64_t)(i * 64 + left)) == n, "message %d differs", i);
            int s = 0;
            MPI_Allreduce(&i, &s, 1, MPI_INT, MPI_SUM, busy);
            CHECK_INT(s, i * test_size, "sum while threads are blocked");
        }
        for (int t = 3; t >= 1; t--) /* now what they wait for */
            MPI_Send(&test_rank, 1, MPI_INT, right, t, blocked_comm);
        for (int t = 0; t < 3; t++) {
            pthread_join(th[t], NULL);
            CHECK_INT(got[t], left, "value in the blocked thread");
        }
        CHECK_INT(is_main, 0, "Is_thread_main of another thread");
        MPI_Comm_free(&blocked_comm);
    }
    return test_finish();
}
