/* Short messages without a receive count towards MICA_UNEXPECTED_MAX with the memory that they
 * take: `pt2pt_many_short COUNT` has COUNT messages of 4 bytes sent to rank 0 that it does not ask
 * for. All of their sends are complete when rank 0 has seen a message that was sent after them, so
 * the sender was not held back. Then rank 0 receives them in order. */
#include "test.h"

enum { SHORT, AFTER, SEEN };

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int count = argc > 1 ? atoi(argv[1]) : 1000, flag = 0, last = -1;
    int *values = test_alloc((size_t)count * sizeof *values);
    MPI_Request *sends = test_alloc((size_t)count * sizeof *sends), after;
    if (test_rank == 1) {
        for (int i = 0; i < count; i++) {
            values[i] = i;
            MPI_Isend(&values[i], 1, MPI_INT, 0, SHORT, MPI_COMM_WORLD, &sends[i]);
        }
        MPI_Isend(&count, 1, MPI_INT, 0, AFTER, MPI_COMM_WORLD, &after);
        MPI_Recv(NULL, 0, MPI_INT, 0, SEEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Testall(count, sends, &flag, MPI_STATUSES_IGNORE);
        CHECK(flag, "of %d messages of 4 bytes some are held back", count);
        MPI_Send(NULL, 0, MPI_INT, 0, SEEN, MPI_COMM_WORLD);
        MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
        MPI_Wait(&after, MPI_STATUS_IGNORE);
    } else if (test_rank == 0) {
        MPI_Recv(&last, 1, MPI_INT, 1, AFTER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_INT, 1, SEEN, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 1, SEEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i++) {
            int value = -1;
            MPI_Recv(&value, 1, MPI_INT, 1, SHORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_INT(value, i, "message");
        }
    }
    free(sends);
    free(values);
    return test_finish();
}
