/* Thousands of communicators made and freed in a loop, and hundreds alive at once: context
 * numbers are used again, and messages still find their way. argv[1]: rounds. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 5000;
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    for (int i = 0; i < rounds; i++) {
        MPI_Comm c;
        int got = -1, mine = i * 7 + test_rank;
        if (i % 4 == 3)
            MPI_Comm_split(MPI_COMM_WORLD, 0, test_rank, &c);
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &c);
        if (i % 16 == 0) {
            MPI_Sendrecv(&mine, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, c,
                         MPI_STATUS_IGNORE);
            CHECK_INT(got, i * 7 + left, "value on a fresh communicator");
        }
        MPI_Comm_free(&c);
    }
    enum { ALIVE = 300 };
    static MPI_Comm c[ALIVE];
    for (int i = 0; i < ALIVE; i++)
        MPI_Comm_dup(i ? c[i - 1] : MPI_COMM_WORLD, &c[i]);
    for (int i = ALIVE - 1; i >= 0; i--) {
        int got = -1;
        MPI_Sendrecv(&i, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, c[i], MPI_STATUS_IGNORE);
        CHECK_INT(got, i, "value on one of many communicators");
    }
    for (int i = 0; i < ALIVE; i++)
        MPI_Comm_free(&c[(i * 7) % ALIVE] /* 7 and 300 are coprime */);
    return test_finish();
}
