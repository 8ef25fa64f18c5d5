/* MPI_T performance variables: a known pattern of messages is counted exactly, by path and by size
 * class; sessions, start, stop, write, reset; and every error. */
#include "test.h"

static MPI_T_pvar_session session;

static int find(const char *name, int class)
{
    int index = -1;
    CHECK_INT(MPI_T_pvar_get_index(name, class, &index), MPI_SUCCESS, name);
    return index;
}

static MPI_T_pvar_handle open_pvar(const char *name, int class, int elements)
{
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int count = -1;
    CHECK_INT(MPI_T_pvar_handle_alloc(session, find(name, class), NULL, &handle, &count),
              MPI_SUCCESS, name);
    CHECK_INT(count, elements, name);
    return handle;
}

static unsigned long long value_of(MPI_T_pvar_handle handle)
{
    unsigned long long values[64] = {0};
    CHECK_INT(MPI_T_pvar_read(session, handle, values), MPI_SUCCESS, "pvar_read");
    return values[0];
}

/* Sum over the levels of the messages of each class of sizes. */
static void add_classes(MPI_T_pvar_handle levels[4], unsigned long long sums[10])
{
    memset(sums, 0, 10 * sizeof *sums);
    for (int level = 0; level < 4; level++) {
        unsigned long long values[10];
        CHECK_INT(MPI_T_pvar_read(session, levels[level], values), MPI_SUCCESS, "read a level");
        for (int i = 0; i < 10; i++)
            sums[i] += values[i];
    }
}

static void send_to_next(int bytes, int times)
{
    static char out[1 << 16], in[1 << 16];
    int next = (test_rank + 1) % test_size, last = (test_rank + test_size - 1) % test_size;
    for (int i = 0; i < times; i++)
        MPI_Sendrecv(out, bytes, MPI_BYTE, next, 1, in, bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

static void check_infos(void)
{
    int num = -1;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Win win;
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    CHECK_INT(MPI_T_pvar_get_num(&num), MPI_SUCCESS, "pvar_get_num");
    for (int i = 0; i < num; i++) {
        char name[64], desc[512];
        int name_len = sizeof name, desc_len = sizeof desc, verbosity, class, bind, readonly;
        int continuous, atomic, index = -1;
        MPI_Datatype type;
        MPI_T_enum e;
        CHECK_INT(MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &e, desc,
                                      &desc_len, &bind, &readonly, &continuous, &atomic),
                  MPI_SUCCESS, "pvar_get_info");
        CHECK(name_len == (int)strlen(name) + 1 && desc_len == (int)strlen(desc) + 1, "%s", name);
        CHECK_INT(MPI_T_pvar_get_index(name, class, &index), MPI_SUCCESS, name);
        CHECK_INT(index, i, name);
        CHECK(type == MPI_INT || type == MPI_UNSIGNED_LONG_LONG, "type of %s", name);
        CHECK((class == MPI_T_PVAR_CLASS_STATE) == (e != MPI_T_ENUM_NULL), "enum of %s", name);
        CHECK(readonly == continuous && atomic != readonly, "flags of %s", name);
        MPI_T_pvar_handle handle;
        void *object = bind == MPI_T_BIND_MPI_COMM  ? (void *)&comm
                       : bind == MPI_T_BIND_MPI_WIN ? (void *)&win
                                                    : NULL;
        CHECK_INT(MPI_T_pvar_handle_alloc(session, i, object, &handle, NULL), MPI_SUCCESS, name);
        CHECK_INT(MPI_T_pvar_start(session, handle),
                  continuous ? MPI_T_ERR_PVAR_NO_STARTSTOP : MPI_SUCCESS, name);
        CHECK_INT(MPI_T_pvar_stop(session, handle),
                  continuous ? MPI_T_ERR_PVAR_NO_STARTSTOP : MPI_SUCCESS, name);
        CHECK_INT(MPI_T_pvar_reset(session, handle),
                  readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS, name);
        unsigned long long values[64];
        CHECK_INT(MPI_T_pvar_read(session, handle, values), MPI_SUCCESS, name);
        CHECK_INT(MPI_T_pvar_write(session, handle, values),
                  readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS, name);
        CHECK_INT(MPI_T_pvar_readreset(session, handle, values),
                  readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS, name);
        CHECK_INT(MPI_T_pvar_handle_free(session, &handle), MPI_SUCCESS, name);
        CHECK(handle == MPI_T_PVAR_HANDLE_NULL, "handle of %s", name);
    }
    MPI_Win_free(&win);
    CHECK_INT(MPI_T_pvar_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                  NULL, NULL),
              MPI_T_ERR_INVALID_INDEX, "pvar_get_info");
}

static void check_errors(MPI_T_pvar_handle handle)
{
    MPI_T_pvar_session other, none = MPI_T_PVAR_SESSION_NULL;
    unsigned long long values[64];
    int index = -1;
    CHECK_INT(MPI_T_pvar_session_create(&other), MPI_SUCCESS, "another session");
    CHECK_INT(MPI_T_pvar_read(other, handle, values), MPI_T_ERR_INVALID_HANDLE, "other session");
    CHECK_INT(MPI_T_pvar_read(none, handle, values), MPI_T_ERR_INVALID_SESSION, "no session");
    CHECK_INT(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, values), MPI_T_ERR_INVALID_HANDLE,
              "read all");
    CHECK_INT(MPI_T_pvar_read(session, (MPI_T_pvar_handle)(uintptr_t)0x7fffdeadbeef0, values),
              MPI_T_ERR_INVALID_HANDLE, "wild handle");
    CHECK_INT(MPI_T_pvar_read(session, handle, NULL), MPI_T_ERR_INVALID, "read to NULL");
    CHECK_INT(MPI_T_pvar_readreset(session, handle, NULL), MPI_T_ERR_INVALID, "readreset to NULL");
    CHECK_INT(MPI_T_pvar_write(session, handle, NULL), MPI_T_ERR_INVALID, "write from NULL");
    CHECK_INT(MPI_T_pvar_start(none, MPI_T_PVAR_ALL_HANDLES), MPI_T_ERR_INVALID_SESSION, "start");
    CHECK_INT(MPI_T_pvar_session_free(&other), MPI_SUCCESS, "session_free");
    CHECK_INT(MPI_T_pvar_session_free(&other), MPI_T_ERR_INVALID_SESSION, "free it again");
    CHECK_INT(MPI_T_pvar_session_free(NULL), MPI_T_ERR_INVALID, "free NULL");
    CHECK_INT(MPI_T_pvar_get_index("none", MPI_T_PVAR_CLASS_COUNTER, &index),
              MPI_T_ERR_INVALID_NAME, "no such name");
    CHECK_INT(MPI_T_pvar_get_index("mica_parks", MPI_T_PVAR_CLASS_TIMER, &index),
              MPI_T_ERR_INVALID_NAME, "another class");
    CHECK_INT(MPI_T_pvar_handle_alloc(session, -1, NULL, &handle, NULL), MPI_T_ERR_INVALID_INDEX,
              "handle_alloc");
}

/* Collectives are counted by algorithm: ten barriers, by whichever. */
static void check_collectives(void)
{
    static const char *const names[] = {"dissemination", "binomial", "scatter_ring", "linear",
                                        "bruck",         "ring",     "exchange",     "doubling",
                                        "halving",       "pairwise", "shared",       "direct",
                                        "by_size",       "two_level"};
    enum { ALGORITHMS = sizeof names / sizeof *names };
    MPI_T_pvar_handle handles[ALGORITHMS];
    unsigned long long sum = 0;
    for (int i = 0; i < ALGORITHMS; i++) {
        char name[64];
        snprintf(name, sizeof name, "mica_collective_%s_calls", names[i]);
        handles[i] = open_pvar(name, MPI_T_PVAR_CLASS_COUNTER, 1);
        CHECK_INT(MPI_T_pvar_start(session, handles[i]), MPI_SUCCESS, name);
    }
    for (int i = 0; i < 10; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ALGORITHMS; i++) {
        sum += value_of(handles[i]);
        CHECK_INT(MPI_T_pvar_handle_free(session, &handles[i]), MPI_SUCCESS, names[i]);
    }
    CHECK_INT(sum, 10, "collectives by any algorithm");
}

int main(int argc, char **argv)
{
    MPI_T_init_thread(MPI_THREAD_SINGLE, NULL);
    test_init(&argc, &argv);
    CHECK_INT(MPI_T_pvar_session_create(&session), MPI_SUCCESS, "session_create");
    check_infos();

    static const char *const names[] = {"mica_level_shared_cache_messages",
                                        "mica_level_package_messages", "mica_level_node_messages",
                                        "mica_level_network_messages"};
    MPI_T_pvar_handle levels[4];
    for (int i = 0; i < 4; i++)
        levels[i] = open_pvar(names[i], MPI_T_PVAR_CLASS_COUNTER, 10);
    MPI_T_pvar_handle inline_ = open_pvar("mica_sent_inline_messages", MPI_T_PVAR_CLASS_COUNTER, 1);
    MPI_T_pvar_handle bytes = open_pvar("mica_sent_inline_bytes", MPI_T_PVAR_CLASS_AGGREGATE, 1);
    MPI_T_pvar_handle own = open_pvar("mica_sent_own_messages", MPI_T_PVAR_CLASS_COUNTER, 1);
    unsigned long long sums[10];

    send_to_next(8, 10); /* before the start: not counted */
    CHECK_INT(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS, "start all");
    send_to_next(8, 100);
    send_to_next(300, 7);
    send_to_next(5000, 3);
    add_classes(levels, sums);
    if (test_size > 1) {
        CHECK_INT(sums[0], 100, "messages of 8 B");
        CHECK_INT(sums[2], 7, "messages of 300 B");
        CHECK_INT(sums[4], 3, "messages of 5000 B");
        CHECK_INT(value_of(own), 0, "messages to itself");
        if (argc > 1) { /* all on one node, by rings */
            CHECK_INT(value_of(inline_), 100, "inline messages");
            CHECK_INT(value_of(bytes), 800, "inline bytes");
        }
    } else {
        CHECK_INT(value_of(own), 110, "messages to itself");
    }

    MPI_T_pvar_handle mine = test_size > 1 ? levels[0] : own;
    MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES);
    unsigned long long stopped = value_of(own), values[10] = {5, 6};
    send_to_next(8, 5);
    CHECK_INT(value_of(own), stopped, "while stopped");
    CHECK_INT(MPI_T_pvar_write(session, mine, values), MPI_SUCCESS, "write");
    CHECK_INT(value_of(mine), 5, "what was written");
    memset(values, 0, sizeof values);
    CHECK_INT(MPI_T_pvar_readreset(session, mine, values), MPI_SUCCESS, "readreset");
    CHECK_INT(values[0], 5, "readreset");
    CHECK_INT(value_of(mine), 0, "after readreset");
    MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES);
    CHECK_INT(value_of(own), 0, "after reset");
    check_errors(mine);

    /* What is unexpected: three messages wait, then two, then none. */
    MPI_T_pvar_handle queue = open_pvar("mica_unexpected_queue", MPI_T_PVAR_CLASS_LEVEL, 1);
    MPI_T_pvar_handle longest =
        open_pvar("mica_unexpected_queue_longest", MPI_T_PVAR_CLASS_HIGHWATERMARK, 1);
    MPI_T_pvar_handle arrived =
        open_pvar("mica_unexpected_messages", MPI_T_PVAR_CLASS_COUNTER, 1);
    MPI_T_pvar_start(session, arrived);
    MPI_Barrier(MPI_COMM_WORLD);
    int next = (test_rank + 1) % test_size, flag = 0, word = 0;
    MPI_Request requests[3];
    for (int i = 0; i < 3; i++)
        MPI_Isend(&test_rank, 1, MPI_INT, next, 10 + i, MPI_COMM_WORLD, &requests[i]);
    while (!flag)
        MPI_Iprobe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    /* Where collectives send messages, these may be among them. */
    int exact = argc > 1 || test_size == 1;
    CHECK(value_of(queue) == 3 || (!exact && value_of(queue) > 3), "queued %llu", value_of(queue));
    CHECK(value_of(arrived) == 3 || (!exact && value_of(arrived) > 3), "unexpected %llu",
          value_of(arrived));
    CHECK(value_of(longest) >= 3, "longest queue %llu", value_of(longest));
    for (int i = 0; i < 3; i++) {
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 10 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        unsigned long long left = (unsigned long long)(2 - i);
        CHECK(value_of(queue) == left || (!exact && value_of(queue) > left), "%llu are left",
              value_of(queue));
    }
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    if (argc > 1 && test_size > 1) /* one step each, where all are on one node */
        check_collectives();
    CHECK_INT(MPI_T_pvar_session_free(&session), MPI_SUCCESS, "session_free");
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS, "finalize");
    return test_finish();
}
