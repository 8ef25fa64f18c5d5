/* A target without memory for a request: an operation that needs it there is MPI_ERR_NO_MEM at its
 * origin, or in the call that ends its epoch; what needs none works, also later. No origin waits
 * for ever. Rank 0 is the origin, the last rank the target, which no other rank shares memory with. */
#include "rma.h"
#include "allocator.h"

/* LONG: one request, as the target has no memory to keep a second that comes meanwhile. */
enum { LONG = 8000, ROUNDS = 3 };

/* The operations of a round. With memory at the target all succeed. */
static void operations(MPI_Win win, int to, int has_memory)
{
    static int values[LONG], back[LONG], ones[LONG];
    int one = 1, before = -1, put, end, wanted = has_memory ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    for (int i = 0; i < LONG; i++)
        ones[i] = 1, values[i] = i;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
    CHECK_INT(MPI_Put(values, LONG, MPI_INT, to, 0, LONG, MPI_INT, win), MPI_SUCCESS, "MPI_Put");
    CHECK_INT(MPI_Win_flush(to, win), MPI_SUCCESS, "MPI_Win_flush after MPI_Put");
    CHECK_INT(MPI_Get(back, 4, MPI_INT, to, 100, 4, MPI_INT, win), MPI_SUCCESS, "a short MPI_Get");
    CHECK_INT(MPI_Win_flush(to, win), MPI_SUCCESS, "MPI_Win_flush after a short MPI_Get");
    CHECK_INT(back[3], 103, "what a short MPI_Get got");
    CHECK_INT(MPI_Fetch_and_op(&one, &before, MPI_INT, to, 7, MPI_SUM, win), MPI_SUCCESS, "MPI_Fetch_and_op");
    CHECK_INT(MPI_Win_flush(to, win), MPI_SUCCESS, "MPI_Win_flush after MPI_Fetch_and_op");
    CHECK_INT(before, 7, "what MPI_Fetch_and_op got");
    put = MPI_Get(back, LONG, MPI_INT, to, 0, LONG, MPI_INT, win);
    end = MPI_Win_flush(to, win);
    CHECK_INT(test_class_of(put ? put : end), wanted, "a long MPI_Get");
    if (has_memory)
        CHECK(back[7] == 8 && back[LONG - 1] == LONG - 1, "a long MPI_Get got %d and %d", back[7], back[LONG - 1]);
    put = MPI_Get_accumulate(ones, LONG, MPI_INT, back, LONG, MPI_INT, to, 0, LONG, MPI_INT, MPI_SUM, win);
    end = MPI_Win_unlock(to, win);
    CHECK_INT(test_class_of(put ? put : end), wanted, "a long MPI_Get_accumulate");
    CHECK_CLASS(MPI_Win_unlock(to, win), MPI_ERR_RMA_SYNC, "a second MPI_Win_unlock");
}

int main(int argc, char **argv)
{
    int *memory, to, failed = 0;
    MPI_Win win;
    test_init(&argc, &argv);
    to = test_size - 1;
    memory = test_alloc(LONG * sizeof *memory);
    MPI_Win_create(memory, LONG * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int i = 0; i < ROUNDS; i++) {
        for (int has_memory = 0; has_memory < 2; has_memory++) {
            if (test_rank == to && !has_memory)
                fail_blocks(0, 1);
            MPI_Barrier(MPI_COMM_WORLD);
            if (test_rank == 0)
                operations(win, to, has_memory);
            MPI_Barrier(MPI_COMM_WORLD);
            failed += end_failures();
        }
    }
    if (test_rank == to)
        CHECK(failed > 0, "no block was refused: the operations came by another path");
    MPI_Win_free(&win);
    free(memory);
    return test_finish();
}
