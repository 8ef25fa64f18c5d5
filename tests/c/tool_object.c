/* MPI_T performance variables that are bound to a communicator or a window: each counts its object
 * alone, exactly, from the start of the handle on, and no message takes another way afterwards. */
#include "test.h"

static MPI_T_pvar_session session;

static MPI_T_pvar_handle open_pvar(const char *name, int class, int bind, void *object)
{
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int index = -1, count = -1, bound = -1;
    CHECK_INT(MPI_T_pvar_get_index(name, class, &index), MPI_SUCCESS, name);
    CHECK_INT(MPI_T_pvar_get_info(index, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &bound,
                                  NULL, NULL, NULL),
              MPI_SUCCESS, name);
    CHECK_INT(bound, bind, name);
    CHECK_INT(MPI_T_pvar_handle_alloc(session, index, object, &handle, &count), MPI_SUCCESS, name);
    CHECK_INT(count, 1, name);
    if (class != MPI_T_PVAR_CLASS_LEVEL)
        CHECK_INT(MPI_T_pvar_start(session, handle), MPI_SUCCESS, name);
    return handle;
}

static MPI_T_pvar_handle of_comm(const char *name, int class, MPI_Comm *comm)
{
    return open_pvar(name, class, MPI_T_BIND_MPI_COMM, comm);
}

static MPI_T_pvar_handle of_win(const char *name, int class, MPI_Win *win)
{
    return open_pvar(name, class, MPI_T_BIND_MPI_WIN, win);
}

static long long value_of(MPI_T_pvar_handle handle)
{
    unsigned long long value = 77;
    CHECK_INT(MPI_T_pvar_read(session, handle, &value), MPI_SUCCESS, "pvar_read");
    return (long long)value;
}

static int next, last;
static char out[20000], in[20000];

/* Five sends of 8 B, two of 100 B, one of 10000 B, four persistent ones of 1 B: 12 messages. */
enum { MESSAGES = 12, BYTES = 5 * 8 + 2 * 100 + 10000 + 4 };

static void pattern(MPI_Comm comm)
{
    MPI_Request requests[2], persistent;
    for (int i = 0; i < 5; i++) {
        MPI_Irecv(in, 8, MPI_BYTE, last, 1, comm, requests);
        MPI_Send(out, 8, MPI_BYTE, next, 1, comm);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Irecv(in, 100, MPI_BYTE, last, 2, comm, &requests[0]);
        MPI_Isend(out, 100, MPI_BYTE, next, 2, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Sendrecv(out, 10000, MPI_BYTE, next, 3, in, 10000, MPI_BYTE, last, 3, comm,
                 MPI_STATUS_IGNORE);
    MPI_Send_init(out, 1, MPI_BYTE, next, 4, comm, &persistent);
    for (int i = 0; i < 4; i++) {
        MPI_Irecv(in, 1, MPI_BYTE, last, 4, comm, requests);
        MPI_Start(&persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&persistent);
    MPI_Send(out, 8, MPI_BYTE, MPI_PROC_NULL, 5, comm); /* no message */
    MPI_Barrier(comm);
}

static void check_messages(void)
{
    MPI_Comm world = MPI_COMM_WORLD, other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    pattern(other); /* before there is a handle */
    MPI_T_pvar_handle sent = of_comm("mica_comm_sent_messages", MPI_T_PVAR_CLASS_COUNTER, &other);
    MPI_T_pvar_handle bytes = of_comm("mica_comm_sent_bytes", MPI_T_PVAR_CLASS_AGGREGATE, &other);
    MPI_T_pvar_handle arrived =
        of_comm("mica_comm_arrived_messages", MPI_T_PVAR_CLASS_COUNTER, &other);
    MPI_T_pvar_handle arrived_bytes =
        of_comm("mica_comm_arrived_bytes", MPI_T_PVAR_CLASS_AGGREGATE, &other);
    MPI_T_pvar_handle of_world =
        of_comm("mica_comm_sent_messages", MPI_T_PVAR_CLASS_COUNTER, &world);
    MPI_Barrier(MPI_COMM_WORLD); /* all ranks count */
    pattern(other);
    CHECK_INT(value_of(sent), MESSAGES, "messages sent");
    CHECK_INT(value_of(bytes), BYTES, "bytes sent");
    CHECK_INT(value_of(arrived), MESSAGES, "messages arrived");
    CHECK_INT(value_of(arrived_bytes), BYTES, "bytes arrived");
    CHECK_INT(value_of(of_world), 0, "messages of another communicator");
    MPI_Barrier(MPI_COMM_WORLD);
    pattern(MPI_COMM_WORLD);
    CHECK_INT(value_of(of_world), MESSAGES, "messages of MPI_COMM_WORLD");
    CHECK_INT(value_of(sent), MESSAGES, "they are not the other's");
    CHECK_INT(MPI_T_pvar_handle_free(session, &of_world), MPI_SUCCESS, "handle_free");
    CHECK_INT(MPI_T_pvar_handle_free(session, &sent), MPI_SUCCESS, "handle_free");
    pattern(other); /* one handle is left */
    CHECK_INT(value_of(bytes), 2 * BYTES, "bytes sent");
    MPI_T_pvar_stop(session, bytes);
    pattern(other);
    CHECK_INT(value_of(bytes), 2 * BYTES, "bytes sent until the stop");
    CHECK_INT(MPI_T_pvar_reset(session, bytes), MPI_SUCCESS, "reset");
    CHECK_INT(value_of(bytes), 0, "after the reset");
    MPI_Comm_free(&other);
    CHECK_INT(value_of(arrived), 3 * MESSAGES, "the count stays when the communicator is freed");
    CHECK_INT(MPI_T_pvar_handle_free(session, &bytes), MPI_SUCCESS, "handle_free");
    CHECK_INT(MPI_T_pvar_handle_free(session, &arrived), MPI_SUCCESS, "handle_free");
    CHECK_INT(MPI_T_pvar_handle_free(session, &arrived_bytes), MPI_SUCCESS, "handle_free");
    pattern(MPI_COMM_WORLD);
}

static void check_queue(void)
{
    MPI_Comm world = MPI_COMM_WORLD, other;
    MPI_Request requests[5];
    int flag;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_T_pvar_handle unexpected =
        of_comm("mica_comm_unexpected_messages", MPI_T_PVAR_CLASS_COUNTER, &other);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 5; i++)
        MPI_Isend(out, 4, MPI_BYTE, next, i, i < 3 ? other : world, &requests[i]);
    for (flag = 0; !flag;)
        MPI_Iprobe(last, 2, other, &flag, MPI_STATUS_IGNORE);
    for (flag = 0; !flag;)
        MPI_Iprobe(last, 4, world, &flag, MPI_STATUS_IGNORE);
    /* Handles that come later than the messages know them. */
    MPI_T_pvar_handle queue =
        of_comm("mica_comm_unexpected_queue", MPI_T_PVAR_CLASS_LEVEL, &other);
    MPI_T_pvar_handle of_world =
        of_comm("mica_comm_unexpected_queue", MPI_T_PVAR_CLASS_LEVEL, &world);
    CHECK_INT(value_of(queue), 3, "queue of the duplicate");
    CHECK_INT(value_of(of_world), 2, "queue of MPI_COMM_WORLD");
    CHECK_INT(value_of(unexpected), 3, "unexpected messages of the duplicate");
    CHECK_INT(MPI_T_pvar_start(session, queue), MPI_T_ERR_PVAR_NO_STARTSTOP, "start");
    CHECK_INT(MPI_T_pvar_reset(session, queue), MPI_T_ERR_PVAR_NO_WRITE, "reset");
    for (int i = 4; i >= 0; i--) {
        MPI_Recv(in, 4, MPI_BYTE, last, i, i < 3 ? other : world, MPI_STATUS_IGNORE);
        CHECK_INT(value_of(queue), i < 3 ? i : 3, "queue of the duplicate");
        CHECK_INT(value_of(of_world), i < 3 ? 0 : i - 3, "queue of MPI_COMM_WORLD");
    }
    MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
    CHECK_INT(value_of(unexpected), 3, "they count once");
    MPI_Comm_free(&other);
}

static void check_windows(void)
{
    int *memory, *memory2, one = 1, before = 0, index = -1;
    MPI_Win win, win2;
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory2, &win2);
    MPI_T_pvar_handle operations = of_win("mica_win_operations", MPI_T_PVAR_CLASS_COUNTER, &win);
    MPI_T_pvar_handle bytes = of_win("mica_win_bytes", MPI_T_PVAR_CLASS_AGGREGATE, &win);
    MPI_T_pvar_handle locks = of_win("mica_win_locks", MPI_T_PVAR_CLASS_COUNTER, &win);
    MPI_T_pvar_handle waits = of_win("mica_win_lock_waits", MPI_T_PVAR_CLASS_COUNTER, &win);
    MPI_T_pvar_handle operations2 = of_win("mica_win_operations", MPI_T_PVAR_CLASS_COUNTER, &win2);
    MPI_T_pvar_handle locks2 = of_win("mica_win_locks", MPI_T_PVAR_CLASS_COUNTER, &win2);
    MPI_T_pvar_handle waits2 = of_win("mica_win_lock_waits", MPI_T_PVAR_CLASS_COUNTER, &win2);
    MPI_T_pvar_handle all_locks = open_pvar("mica_window_locks", MPI_T_PVAR_CLASS_COUNTER,
                                            MPI_T_BIND_NO_OBJECT, NULL);
    MPI_T_pvar_handle all_waits = open_pvar("mica_window_lock_waits", MPI_T_PVAR_CLASS_COUNTER,
                                            MPI_T_BIND_NO_OBJECT, NULL);
    for (int i = 0; i < 3; i++) { /* three locks, nine operations on 4 B and three on 8 B */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, win);
        MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 2, MPI_SUM, win);
        int pair[2];
        MPI_Get(pair, 2, MPI_INT, 0, 4, 2, MPI_INT, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win2);
    MPI_Put(&one, 1, MPI_INT, next, 0, 1, MPI_INT, win2);
    MPI_Win_unlock(next, win2);
    CHECK_INT(value_of(operations), 12, "operations");
    CHECK_INT(value_of(bytes), 9 * 4 + 3 * 8, "their bytes");
    CHECK_INT(value_of(locks), 3, "locks");
    CHECK_INT(value_of(operations2), 1, "operations on the other window");
    CHECK_INT(value_of(locks2), 1, "locks of the other window");
    CHECK_INT(value_of(all_locks), 4, "locks of all windows");
    CHECK_INT(value_of(waits) + value_of(waits2), value_of(all_waits), "waits for locks");
    MPI_Win_free(&win);
    MPI_Win_free(&win2);
    CHECK_INT(value_of(operations), 12, "the count stays when the window is freed");
    CHECK_INT(value_of(all_locks), 4, "locks of freed windows");
    MPI_T_pvar_handle all[] = {operations, bytes, locks, waits, operations2, locks2, waits2};
    for (int i = 0; i < 7; i++)
        CHECK_INT(MPI_T_pvar_handle_free(session, &all[i]), MPI_SUCCESS, "handle_free");
    CHECK_INT(value_of(all_locks), 4, "locks of freed windows without handles");

    /* Places for counts are used again; a window without one says so, and is counted in all. */
    enum { MANY = 40 };
    MPI_Win many[MANY];
    MPI_T_pvar_get_index("mica_win_locks", MPI_T_PVAR_CLASS_COUNTER, &index);
    for (int round = 0; round < 2; round++) {
        int refused = 0;
        for (int i = 0; i < MANY; i++)
            MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &many[i]);
        for (int i = 0; i < MANY; i++) {
            MPI_T_pvar_handle handle;
            int code = MPI_T_pvar_handle_alloc(session, index, &many[i], &handle, NULL);
            CHECK(code == (refused ? MPI_T_ERR_OUT_OF_HANDLES : MPI_SUCCESS) ||
                      (!refused && code == MPI_T_ERR_OUT_OF_HANDLES),
                  "window %d: %d", i, code);
            refused += code != MPI_SUCCESS;
            if (code == MPI_SUCCESS)
                MPI_T_pvar_start(session, handle);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, many[i]);
            MPI_Win_unlock(0, many[i]);
            if (code == MPI_SUCCESS) {
                CHECK_INT(value_of(handle), 1, "its lock");
                MPI_T_pvar_handle_free(session, &handle);
            }
        }
        CHECK_INT(refused, MANY - 7, "windows without counts of their own");
        for (int i = 0; i < MANY; i++)
            MPI_Win_free(&many[i]);
        CHECK_INT(value_of(all_locks), 4 + MANY * (round + 1), "locks of all windows");
    }
}

static void check_errors(void)
{
    int index = -1;
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    MPI_Comm no_comm = MPI_COMM_NULL;
    MPI_Win no_win = MPI_WIN_NULL;
    MPI_T_pvar_get_index("mica_comm_sent_bytes", MPI_T_PVAR_CLASS_AGGREGATE, &index);
    CHECK_INT(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, NULL), MPI_T_ERR_INVALID,
              "no object");
    CHECK_INT(MPI_T_pvar_handle_alloc(session, index, &no_comm, &handle, NULL),
              MPI_T_ERR_INVALID_HANDLE, "the null communicator");
    MPI_T_pvar_get_index("mica_win_locks", MPI_T_PVAR_CLASS_COUNTER, &index);
    CHECK_INT(MPI_T_pvar_handle_alloc(session, index, &no_win, &handle, NULL),
              MPI_T_ERR_INVALID_HANDLE, "the null window");
    CHECK(handle == MPI_T_PVAR_HANDLE_NULL, "no handle was returned");
}

int main(int argc, char **argv)
{
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, NULL), MPI_SUCCESS, "init_thread");
    test_init(&argc, &argv);
    next = (test_rank + 1) % test_size;
    last = (test_rank + test_size - 1) % test_size;
    CHECK_INT(MPI_T_pvar_session_create(&session), MPI_SUCCESS, "session_create");
    check_errors();
    check_messages();
    check_queue();
    check_windows();
    CHECK_INT(MPI_T_pvar_session_free(&session), MPI_SUCCESS, "session_free");
    pattern(MPI_COMM_WORLD);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS, "finalize");
    return test_finish();
}
