/* MPI_T event of a late arrival, which a control variable turns on before MPI_Init: the last rank sleeps before a barrier, and all
 * others learn who it was, and how long they waited. */
#include "test.h"
#include <time.h>

struct seen {
    int calls, late, ranks;
    unsigned long long wait, inside;
};

static void on_late(MPI_T_event_instance instance, MPI_T_event_registration registration,
                    MPI_T_cb_safety safety, void *user_data)
{
    struct seen *seen = user_data;
    (void)registration, (void)safety;
    seen->calls++;
    MPI_T_event_read(instance, 0, &seen->late);
    MPI_T_event_read(instance, 1, &seen->ranks);
    MPI_T_event_read(instance, 2, &seen->wait);
    MPI_T_event_read(instance, 3, &seen->inside);
}

int main(int argc, char **argv)
{
    struct seen seen = {0};
    int index = -1, on = 1, written;
    MPI_T_event_registration registration;
    MPI_T_cvar_handle late;
    MPI_T_init_thread(MPI_THREAD_SINGLE, NULL);
    MPI_T_cvar_get_index("mica_late", &index);
    MPI_T_cvar_handle_alloc(index, NULL, &late, NULL);
    written = MPI_T_cvar_write(late, &on);
    test_init(&argc, &argv);
    CHECK_INT(written, MPI_SUCCESS, "cvar_write");
    MPI_T_event_get_index("mica_late_arrival", &index);
    CHECK_INT(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration), MPI_SUCCESS,
              "handle_alloc");
    MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, &seen,
                                  on_late);
    MPI_Barrier(MPI_COMM_WORLD);
    seen.calls = 0;
    if (test_rank == test_size - 1)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank < test_size - 1) {
        CHECK_INT(seen.calls, 1, "events");
        CHECK_INT(seen.late, test_size - 1, "late rank");
        CHECK_INT(seen.ranks, test_size, "ranks");
        /* How late this rank itself was scheduled is not known. */
        CHECK(seen.wait > 0 && seen.inside >= seen.wait, "waited %llu ns in %llu ns", seen.wait,
              seen.inside);
    } else {
        CHECK_INT(seen.calls, 0, "events at the late rank");
    }
    CHECK_INT(MPI_T_event_handle_free(registration, NULL, NULL), MPI_SUCCESS, "handle_free");
    MPI_T_finalize();
    return test_finish();
}
