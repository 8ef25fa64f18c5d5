/* An accumulate of several elements is seen whole or not at all by another of the same elements:
 * beyond the standard, which promises that for each element (MPI 5.0, 12.7.1), but programs move
 * small structures this way. Rank 1 replaces and adds, the others fetch. */
#include "test.h"

enum { ROUNDS = 5000, MOST = 16 };

static unsigned char bytes[MOST], *window;
static double pair[2];

static int mixed(const unsigned char *value, int n)
{
    for (int i = 1; i < n; i++)
        if (value[i] != value[0])
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Win win;
    int mixed_bytes = 0, mixed_pairs = 0;
    test_init(&argc, &argv);
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    memset(window, 0, 64);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int k = 0; k < ROUNDS; k++) {
        if (test_rank == 1) {
            memset(bytes, k % 2, sizeof bytes);
            MPI_Accumulate(bytes, MOST, MPI_BYTE, 0, 0, MOST, MPI_BYTE, MPI_REPLACE, win);
            pair[0] = pair[1] = 1;
            MPI_Accumulate(pair, 2, MPI_DOUBLE, 0, 32, 2, MPI_DOUBLE, MPI_SUM, win);
            MPI_Win_flush(0, win);
        } else {
            MPI_Get_accumulate(NULL, 0, MPI_BYTE, bytes, MOST, MPI_BYTE, 0, 0, MOST, MPI_BYTE, MPI_NO_OP, win);
            MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, pair, 2, MPI_DOUBLE, 0, 32, 2, MPI_DOUBLE, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
            mixed_bytes += mixed(bytes, MOST);
            mixed_pairs += pair[0] != pair[1];
        }
    }
    CHECK(!mixed_bytes && !mixed_pairs, "of %d accumulates %d of 16 bytes and %d of 2 doubles were seen in part", ROUNDS,
          mixed_bytes, mixed_pairs);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return test_finish();
}
