/* Programs that poll, also with more ranks than cores: every call that tests or probes completes
 * what a peer sends meanwhile, with and without computation between two polls. And how often
 * polling gives the core away: seldom if the program computes, but it does if the program only
 * polls. Counted, not timed: the library's sched_yield is this program's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include "test.h"

#include <sys/syscall.h>
#include <unistd.h>

static long yields;

/* Instead of libc's, for the library as well. */
int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

/* Some microseconds of a core's time: a chain of multiplications, whatever else the core does. */
static void compute(void)
{
    static volatile uint64_t result;
    uint64_t x = result | 1;
    for (int i = 0; i < 4000; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    result = x;
}

enum { TEST, TESTALL, TESTANY, TESTSOME, STATUS, IPROBE, IMPROBE, KINDS };
static const char *const names[] = {
    "Test", "Testall", "Testany", "Testsome", "Request_get_status", "Iprobe", "Improbe",
};

/* Whether the message has come; the request is complete then, or the message received. */
static int poll(int kind, MPI_Request *r, int from, int *token)
{
    int flag = 0, index = -7, indices[1];
    MPI_Message message;
    MPI_Status status;
    switch (kind) {
    case TEST:
        MPI_Test(r, &flag, &status);
        break;
    case TESTALL:
        MPI_Testall(1, r, &flag, MPI_STATUSES_IGNORE);
        break;
    case TESTANY:
        MPI_Testany(1, r, &index, &flag, &status);
        CHECK_INT(index, flag ? 0 : MPI_UNDEFINED, "index of Testany");
        break;
    case TESTSOME:
        MPI_Testsome(1, r, &flag, indices, MPI_STATUSES_IGNORE);
        CHECK(flag == 0 || flag == 1, "Testsome completed %d of 1", flag);
        break;
    case STATUS:
        MPI_Request_get_status(*r, &flag, &status);
        if (flag)
            MPI_Wait(r, &status);
        break;
    case IPROBE:
        MPI_Iprobe(from, 5, MPI_COMM_WORLD, &flag, &status);
        if (flag)
            MPI_Recv(token, 1, MPI_INT, from, 5, MPI_COMM_WORLD, &status);
        break;
    default:
        MPI_Improbe(from, 5, MPI_COMM_WORLD, &flag, &message, &status);
        if (flag)
            MPI_Mrecv(token, 1, MPI_INT, &message, &status);
        break;
    }
    return flag;
}

/* A message is passed around the ring of ranks; a rank that waits for it polls. */
static void ring(int kind, int computes, int laps)
{
    int next = (test_rank + 1) % test_size, last = (test_rank + test_size - 1) % test_size;
    for (int lap = 0; lap < laps; lap++) {
        int token = -1;
        MPI_Request r = MPI_REQUEST_NULL, s;
        if (kind < IPROBE)
            MPI_Irecv(&token, 1, MPI_INT, last, 5, MPI_COMM_WORLD, &r);
        if (test_rank == 0) {
            int first = lap * test_size;
            MPI_Isend(&first, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &s);
            MPI_Wait(&s, MPI_STATUS_IGNORE);
        }
        while (!poll(kind, &r, last, &token))
            if (computes)
                compute();
        int before = lap * test_size + (test_rank == 0 ? test_size : test_rank) - 1;
        CHECK(token == before, "lap %d by %s: the token is %d, expected %d", lap, names[kind], token,
              before);
        if (test_rank > 0) {
            token++;
            MPI_Isend(&token, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &s);
            for (int sent = 0; !sent;)
                MPI_Test(&s, &sent, MPI_STATUS_IGNORE);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Polls that find nothing: N of them with computation between them, or polls alone until one has
 * given the core away, N at most. Returns how often the core was given away. */
static long failing(int kind, int computes, long n)
{
    int token = -1, peer = (test_rank + 1) % test_size;
    int last = (test_rank + test_size - 1) % test_size;
    MPI_Request r = MPI_REQUEST_NULL;
    if (kind < IPROBE)
        MPI_Irecv(&token, 1, MPI_INT, last, 5, MPI_COMM_WORLD, &r);
    MPI_Barrier(MPI_COMM_WORLD);
    long before = yields;
    for (long i = 0; i < n && (computes || yields == before); i++) {
        if (computes)
            compute();
        CHECK_INT(poll(kind, &r, last, &token), 0, names[kind]);
    }
    long after = yields;
    /* No rank sends before all have finished. */
    MPI_Barrier(MPI_COMM_WORLD);
    int mine = test_rank;
    MPI_Send(&mine, 1, MPI_INT, peer, 5, MPI_COMM_WORLD);
    while (!poll(kind, &r, last, &token))
        ;
    CHECK_INT(token, last, "message after many failing polls");
    return after - before;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    int is_mica = strstr(version, "Mica") != NULL;

    for (int kind = 0; kind < KINDS; kind++)
        for (int computes = 0; computes <= 1; computes++)
            ring(kind, computes, 3);

    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int kind = 0; kind < KINDS; kind++) {
        /* A processor that is slow between two calls looks like a program that computes: then only
         * every slice of polling (1 ms at most) ends in a yield, hence the many polls. */
        const long n = 2000, most = 1000000;
        long computing = failing(kind, 1, n), polling = failing(kind, 0, most);
        if (!is_mica)
            continue;
        CHECK(computing <= n / 5,
              "%ld of %ld calls of MPI_%s gave the core away, with computation between them", computing, n,
              names[kind]);
        /* Some at least, if another rank may need the core. */
        CHECK(polling > 0 || test_size <= cores, "none of %ld calls of MPI_%s gave the core away",
              most, names[kind]);
    }
    return test_finish();
}
