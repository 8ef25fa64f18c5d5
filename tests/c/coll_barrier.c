/* No rank leaves a barrier before the last has come: by the clock that the ranks of one machine
 * share. In the three forms, on the world and on parts of it, with ranks that come late. Argument:
 * rounds. */
#include "collectives.h"
#include <time.h>

enum { COMMS = 3 };

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_us(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 150, size, rank;
    unsigned all = 3, own = (unsigned)test_rank;
    MPI_Comm comms[COMMS] = {MPI_COMM_WORLD};
    MPI_Comm_split(MPI_COMM_WORLD, 0, -test_rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, test_rank, &comms[2]);
    int64_t *times = test_alloc(2 * (size_t)rounds * sizeof *times);
    for (int i = 0; i < COMMS; i++) {
        MPI_Request kept, r;
        MPI_Comm_size(comms[i], &size);
        MPI_Comm_rank(comms[i], &rank);
        MPI_Barrier_init(comms[i], MPI_INFO_NULL, &kept);
        for (int round = 0; round < rounds; round++) {
            int last = (int)(coll_random(&all) % (unsigned)size), done = 0, form = (int)(coll_random(&all) % 3);
            if (rank == last && round % 4 == 0)
                sleep_us(50 + (long)(coll_random(&own) % 400));
            times[2 * round] = now();
            switch (form) {
            case BLOCKING:
                MPI_Barrier(comms[i]);
                break;
            case NONBLOCKING:
                MPI_Ibarrier(comms[i], &r);
                while (!done)
                    MPI_Test(&r, &done, MPI_STATUS_IGNORE);
                break;
            default:
                MPI_Start(&kept);
                MPI_Wait(&kept, MPI_STATUS_IGNORE);
            }
            times[2 * round + 1] = now();
        }
        MPI_Request_free(&kept);
        int64_t *of_all = test_alloc((size_t)size * 2 * (size_t)rounds * sizeof *of_all);
        MPI_Allgather(times, 2 * rounds, MPI_INT64_T, of_all, 2 * rounds, MPI_INT64_T, comms[i]);
        for (int round = 0; round < rounds; round++)
            for (int k = 0; k < size; k++)
                CHECK(of_all[2 * (k * rounds + round)] <= times[2 * round + 1],
                      "rank %d of %d left barrier %d before rank %d had come", rank, size, round, k);
        free(of_all);
    }
    free(times);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
    return test_finish();
}
