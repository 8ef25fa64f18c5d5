/* A rank that has OMP_NUM_THREADS threads may run on as many processors, as far as mpiexec itself
 * may. Argument: how many are wanted at least. */
#include "test.h"

#include <sched.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int wanted = argc > 1 ? atoi(argv[1]) : 1;
    cpu_set_t own, launcher;
    CHECK(sched_getaffinity(0, sizeof own, &own) == 0, "sched_getaffinity");
    CHECK(sched_getaffinity(getppid(), sizeof launcher, &launcher) == 0, "sched_getaffinity of the launcher");
    int there = CPU_COUNT(&launcher);
    if (wanted > there)
        wanted = there;
    CHECK(CPU_COUNT(&own) >= wanted, "rank %d has %d processors, not %d", test_rank, CPU_COUNT(&own), wanted);
    return test_finish();
}
