/* What a call costs that does as little as it can: nanoseconds of MPI_Send, MPI_Allreduce and
 * MPI_Test in a job of one rank. Run it without and with a profiler, whose cost a call is the
 * difference (bench/profile_cost.sh does): no call waits for a peer, so there is no noise of peers.
 *
 *     "profile cost send"       8 bytes to the rank itself; the receives were posted before
 *     "profile cost allreduce"  8 bytes on MPI_COMM_SELF
 *     "profile cost test"       of a receive that is not complete
 *
 * Each the median of 15 batches of 256 sends, or 4,096 of the others, after 40 that fill what a
 * profiler keeps of the first calls only (a time line); what is received and reduced is checked. */
#include "compute.h"

enum { SENDS = 256, CALLS = 4096, WARM_UP_BATCHES = 40, TAG = 1, TAG_NEVER = 2 };

static double nanoseconds(double seconds, int calls)
{
    return seconds * 1e9 / calls;
}

static double sends(long number)
{
    static MPI_Request requests[SENDS];
    static long received[SENDS];
    for (int i = 0; i < SENDS; i++)
        MPI_Irecv(&received[i], 1, MPI_LONG, 0, TAG, MPI_COMM_SELF, &requests[i]);
    double start = now();
    for (int i = 0; i < SENDS; i++) {
        long value = number + i;
        MPI_Send(&value, 1, MPI_LONG, 0, TAG, MPI_COMM_SELF);
    }
    double time = now() - start;
    MPI_Waitall(SENDS, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < SENDS; i++)
        if (received[i] != number + i)
            bench_die("message %d is %ld, not %ld", i, received[i], number + i);
    return nanoseconds(time, SENDS);
}

static double reductions(long number)
{
    long sum = 0, all = 0;
    double start = now();
    for (int i = 0; i < CALLS; i++) {
        long value = number + i;
        MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_SELF);
        all += sum;
    }
    double time = now() - start;
    if (all != CALLS * number + (long)CALLS * (CALLS - 1) / 2)
        bench_die("the sums of %d reductions are %ld", CALLS, all);
    return nanoseconds(time, CALLS);
}

static double tests(long number)
{
    long never;
    int flag = 0, any = 0;
    MPI_Request request;
    MPI_Irecv(&never, 1, MPI_LONG, 0, TAG_NEVER, MPI_COMM_SELF, &request);
    double start = now();
    for (int i = 0; i < CALLS; i++) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        any |= flag;
    }
    double time = now() - start;
    if (any)
        bench_die("a receive is complete without a message");
    MPI_Send(&number, 1, MPI_LONG, 0, TAG_NEVER, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (never != number)
        bench_die("the message is %ld, not %ld", never, number);
    return nanoseconds(time, CALLS);
}

static void measure(const char *name, double run(long), int calls)
{
    double batch[BATCHES];
    for (int warm = 0; warm < WARM_UP_BATCHES; warm++)
        run(warm);
    for (int b = 0; b < BATCHES; b++)
        batch[b] = run(b);
    bench_print(name, (long)sizeof(long), 1, batch, "ns", calls);
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 1 || argc > 1)
        bench_die("run it with one rank and no arguments");
    measure("profile cost send", sends, SENDS);
    measure("profile cost allreduce", reductions, CALLS);
    measure("profile cost test", tests, CALLS);
    MPI_Finalize();
    return 0;
}
