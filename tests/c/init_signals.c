/* Signals belong to the program: what each of them does is the same after MPI_Init, after messages, and after
 * MPI_Finalize as it was before. (libfabric loads libraries whose initialisers take some of them.) */
#include "test.h"
#include <signal.h>

enum { SIGNALS = 65, SA_RESTORER_FLAG = 0x04000000 /* set by glibc, in what sigaction has set once */ };

static struct sigaction before[SIGNALS];
static int known[SIGNALS];

static void mine(int signal)
{
    (void)signal;
}

static void compare(const char *when)
{
    for (int s = 1; s < SIGNALS; s++) {
        struct sigaction now;
        if (!known[s] || sigaction(s, NULL, &now))
            continue;
        CHECK(now.sa_handler == before[s].sa_handler, "signal %d has another handler %s", s, when);
        CHECK_INT(now.sa_flags & ~SA_RESTORER_FLAG, before[s].sa_flags & ~SA_RESTORER_FLAG, "flags of a signal");
    }
}

int main(int argc, char **argv)
{
    signal(SIGSEGV, mine);
    signal(SIGTERM, mine);
    signal(SIGUSR2, mine);
    for (int s = 1; s < SIGNALS; s++)
        known[s] = sigaction(s, NULL, &before[s]) == 0;
    test_init(&argc, &argv);
    compare("after MPI_Init");
    int sum = 0;
    MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    compare("after a message");
    int failed = test_finish();
    compare("after MPI_Finalize");
    return failed || test_failures;
}
