/* A put that its target refuses, since the memory is not attached: the error is reported, by the
 * put or by the call that ends its epoch (MPI 5.0, 12.6), and that call ends the epoch nevertheless:
 * the lock is given back, and the window can be used and freed. */
#include "rma.h"

static int nowhere[4];

/* One of the two has the error. */
static void check(int put, int end, const char *what)
{
    CHECK(test_class_of(put ? put : end) == MPI_ERR_RMA_RANGE, "%s: classes %d and %d", what, test_class_of(put), test_class_of(end));
}

int main(int argc, char **argv)
{
    int value = 3, put, end, where[2] = {0, 0}, code;
    MPI_Win win;
    MPI_Aint here, there, good, other;
    MPI_Group world, to_group, from_group;
    test_init(&argc, &argv);
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    MPI_Get_address(nowhere, &here);
    MPI_Get_address(where, &good);
    MPI_Sendrecv(&here, 1, MPI_AINT, from, 0, &there, 1, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&good, 1, MPI_AINT, from, 0, &other, 1, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &to, &to_group);
    MPI_Group_incl(world, 1, &from, &from_group);
    for (int round = 0; round < 3; round++) {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        MPI_Win_attach(win, where, sizeof where);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int mode = 0; mode < 2; mode++) {
            MPI_Win_lock(mode ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, to, 0, win);
            put = MPI_Put(&value, 1, MPI_INT, to, there, 1, MPI_INT, win);
            end = MPI_Win_unlock(to, win);
            check(put, end, "MPI_Win_unlock");
            CHECK_CLASS(MPI_Win_unlock(to, win), MPI_ERR_RMA_SYNC, "a second MPI_Win_unlock");
        }
        MPI_Win_lock_all(0, win);
        put = MPI_Put(&value, 1, MPI_INT, to, there, 1, MPI_INT, win);
        end = MPI_Win_unlock_all(win);
        check(put, end, "MPI_Win_unlock_all");
        MPI_Win_lock_all(0, win);
        put = MPI_Put(&value, 1, MPI_INT, to, there, 1, MPI_INT, win);
        end = MPI_Win_flush_all(win);
        check(put, end, "MPI_Win_flush_all");
        CHECK_INT(MPI_Win_unlock_all(win), MPI_SUCCESS, "MPI_Win_unlock_all after it");
        MPI_Win_fence(0, win);
        put = MPI_Put(&value, 1, MPI_INT, to, there, 1, MPI_INT, win);
        end = MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        check(put, end, "MPI_Win_fence");
        /* the window works as before */
        value = 10 * round + test_rank;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        CHECK_INT(MPI_Put(&value, 1, MPI_INT, to, other, 1, MPI_INT, win), MPI_SUCCESS, "MPI_Put to attached memory");
        CHECK_INT(MPI_Win_unlock(to, win), MPI_SUCCESS, "MPI_Win_unlock");
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win);
        CHECK_INT(where[0], 10 * round + from, "what was put");
        MPI_Win_unlock(test_rank, win);
        MPI_Win_post(from_group, 0, win);
        MPI_Win_start(to_group, 0, win);
        put = MPI_Put(&value, 1, MPI_INT, to, there, 1, MPI_INT, win);
        end = MPI_Win_complete(win);
        MPI_Win_wait(win);
        /* at the latest when the window is freed, by its own handler; it is gone then */
        code = MPI_Win_free(&win);
        check(put ? put : end, code, "MPI_Win_complete or MPI_Win_free");
        CHECK(win == MPI_WIN_NULL, "the window is not null");
    }
    MPI_Group_free(&world);
    MPI_Group_free(&to_group);
    MPI_Group_free(&from_group);
    return test_finish();
}
