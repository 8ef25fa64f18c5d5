/* MPI_T events: messages that arrive, unexpected ones, the path of a long one, those of one
 * communicator; their data, callbacks by safety level, drops, and every error. */
#include "test.h"

struct seen {
    int calls, source, tag, safety, source_index, nested;
    unsigned long long bytes, detail;
    MPI_Count when;
    MPI_T_event_instance instance;
};

static void on_event(MPI_T_event_instance instance, MPI_T_event_registration registration,
                     MPI_T_cb_safety safety, void *user_data)
{
    struct seen *seen = user_data;
    unsigned char data[24];
    int n = -1;
    (void)registration;
    seen->calls++;
    seen->safety = safety;
    seen->instance = instance;
    CHECK_INT(MPI_T_event_read(instance, 0, &seen->source), MPI_SUCCESS, "source");
    CHECK_INT(MPI_T_event_read(instance, 1, &seen->tag), MPI_SUCCESS, "tag");
    CHECK_INT(MPI_T_event_read(instance, 2, &seen->bytes), MPI_SUCCESS, "bytes");
    CHECK_INT(MPI_T_event_read(instance, 3, &seen->detail), MPI_SUCCESS, "detail");
    CHECK_INT(MPI_T_event_read(instance, 4, data), MPI_T_ERR_INVALID_INDEX, "element 4");
    CHECK_INT(MPI_T_event_read(instance, 0, NULL), MPI_T_ERR_INVALID, "read to NULL");
    CHECK_INT(MPI_T_event_copy(instance, data), MPI_SUCCESS, "copy");
    CHECK(memcmp(data, &seen->source, 4) == 0 && memcmp(data + 4, &seen->tag, 4) == 0 &&
              memcmp(data + 8, &seen->bytes, 8) == 0 && memcmp(data + 16, &seen->detail, 8) == 0,
          "copied data of call %d", seen->calls);
    CHECK_INT(MPI_T_event_get_timestamp(instance, &seen->when), MPI_SUCCESS, "timestamp");
    CHECK_INT(MPI_T_event_get_source(instance, &seen->source_index), MPI_SUCCESS, "source index");
    CHECK_INT(MPI_T_event_get_num(&n), MPI_SUCCESS, "the interface may be called");
}

static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                       MPI_T_cb_safety safety, void *user_data)
{
    (void)registration, (void)source, (void)safety;
    ((struct seen *)user_data)->nested += (int)count;
}

static int freed;

static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void)registration, (void)safety;
    freed += *(int *)user_data;
}

static MPI_T_event_registration register_for(const char *name, void *object, struct seen *seen)
{
    int index = -1;
    MPI_T_event_registration registration;
    CHECK_INT(MPI_T_event_get_index(name, &index), MPI_SUCCESS, name);
    CHECK_INT(MPI_T_event_handle_alloc(index, object, MPI_INFO_NULL, &registration), MPI_SUCCESS,
              name);
    CHECK_INT(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE,
                                            MPI_INFO_NULL, seen, on_event),
              MPI_SUCCESS, name);
    return registration;
}

static void check_infos(void)
{
    int num = -1, sources = -1;
    CHECK_INT(MPI_T_event_get_num(&num), MPI_SUCCESS, "event_get_num");
    CHECK_INT(MPI_T_source_get_num(&sources), MPI_SUCCESS, "source_get_num");
    for (int i = 0; i < num; i++) {
        char name[64], desc[512];
        int name_len = sizeof name, desc_len = sizeof desc, verbosity, bind, n = 2, names = -1;
        MPI_Datatype types[4] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
        MPI_Aint displacements[4] = {-1, -1, -1, -1};
        MPI_T_enum e;
        MPI_Info info = MPI_INFO_NULL;
        CHECK_INT(MPI_T_event_get_info(i, name, &name_len, &verbosity, types, displacements, &n, &e,
                                       &info, desc, &desc_len, &bind),
                  MPI_SUCCESS, "event_get_info");
        CHECK(n == 4 && types[1] == MPI_INT && types[2] == MPI_DATATYPE_NULL, "%d elements", n);
        MPI_T_event_get_info(i, NULL, NULL, NULL, types, displacements, &n, NULL, NULL, NULL, NULL,
                             NULL);
        CHECK(types[3] == MPI_UNSIGNED_LONG_LONG && displacements[3] == 16, "%s", name);
        CHECK_INT(MPI_T_enum_get_info(e, &names, NULL, NULL), MPI_SUCCESS, "names of elements");
        CHECK_INT(names, 4, "names of elements");
        CHECK(info != MPI_INFO_NULL, "info of %s", name);
        MPI_Info_free(&info);
    }
    for (int i = 0; i < sources; i++) {
        char name[64];
        int name_len = sizeof name;
        MPI_T_source_order order;
        MPI_Count ticks = 0, most = 0, one = 0, two = 0;
        CHECK_INT(MPI_T_source_get_info(i, name, &name_len, NULL, NULL, &order, &ticks, &most, NULL),
                  MPI_SUCCESS, "source_get_info");
        CHECK(ticks == 1000000000 && most > ticks, "ticks of %s", name);
        MPI_T_source_get_timestamp(i, &one);
        MPI_T_source_get_timestamp(i, &two);
        CHECK(one > 0 && one <= two, "time of %s", name);
    }
    CHECK_INT(MPI_T_source_get_timestamp(sources, NULL), MPI_T_ERR_INVALID_INDEX, "no such source");
    CHECK_INT(MPI_T_event_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                   NULL),
              MPI_T_ERR_INVALID_INDEX, "no such event");
}

static void check_errors(MPI_T_event_registration registration, MPI_T_event_instance old)
{
    MPI_T_event_registration wild = (MPI_T_event_registration)(uintptr_t)0x7fffdeadbeef0;
    MPI_Comm null = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    int index = -1;
    MPI_T_event_get_index("mica_comm_message_unexpected", &index);
    CHECK_INT(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &wild), MPI_T_ERR_INVALID,
              "no communicator");
    CHECK_INT(MPI_T_event_handle_alloc(index, &null, MPI_INFO_NULL, &wild),
              MPI_T_ERR_INVALID_HANDLE, "null communicator");
    CHECK_INT(MPI_T_event_handle_alloc(-1, NULL, MPI_INFO_NULL, &wild), MPI_T_ERR_INVALID_INDEX,
              "no such event");
    CHECK_INT(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, NULL), MPI_T_ERR_INVALID, "NULL");
    CHECK_INT(MPI_T_event_register_callback(wild, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL),
              MPI_T_ERR_INVALID_HANDLE, "register_callback");
    CHECK_INT(MPI_T_event_register_callback(registration, (MPI_T_cb_safety)7, MPI_INFO_NULL, NULL,
                                            NULL),
              MPI_T_ERR_INVALID, "safety level 7");
    CHECK_INT(MPI_T_event_set_dropped_handler(wild, on_dropped), MPI_T_ERR_INVALID_HANDLE,
              "set_dropped_handler");
    CHECK_INT(MPI_T_event_handle_free(wild, NULL, NULL), MPI_T_ERR_INVALID_HANDLE, "handle_free");
    CHECK_INT(MPI_T_event_read(old, 0, &index), MPI_T_ERR_INVALID_HANDLE, "an event of the past");
    CHECK_INT(MPI_T_event_get_index("none", &index), MPI_T_ERR_INVALID_NAME, "no such name");
    CHECK_INT(MPI_T_event_handle_set_info(registration, MPI_INFO_NULL), MPI_SUCCESS, "set_info");
    CHECK_INT(MPI_T_event_handle_get_info(registration, &info), MPI_SUCCESS, "get_info");
    MPI_Info_free(&info);
    CHECK_INT(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL),
              MPI_SUCCESS, "callback_set_info");
    CHECK_INT(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info),
              MPI_SUCCESS, "callback_get_info");
    MPI_Info_free(&info);
    CHECK_INT(MPI_T_event_callback_get_info(registration, (MPI_T_cb_safety)7, &info),
              MPI_T_ERR_INVALID, "level 7");
}

int main(int argc, char **argv)
{
    static char buffer[1 << 18];
    MPI_T_init_thread(MPI_THREAD_SINGLE, NULL);
    struct seen arrived = {0}, unexpected = {0}, path = {0}, of_dup = {0};
    /* Before MPI_Init: it holds afterwards. */
    MPI_T_event_registration a = register_for("mica_message_arrived", NULL, &arrived);
    test_init(&argc, &argv);
    check_infos();
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_T_event_registration u = register_for("mica_message_unexpected", NULL, &unexpected);
    MPI_T_event_registration p = register_for("mica_protocol_chosen", NULL, &path);
    MPI_T_event_registration d = register_for("mica_comm_message_unexpected", &dup, &of_dup);
    int next = (test_rank + 1) % test_size, last = (test_rank + test_size - 1) % test_size, flag = 0;
    MPI_Request request, sends[2];

    /* One that is posted: the others have not started before the barrier. */
    arrived.calls = unexpected.calls = 0;
    MPI_Irecv(buffer, 8, MPI_BYTE, last, 7, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&buffer[100], 8, MPI_BYTE, next, 7, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_INT(arrived.calls, 1, "arrivals");
    CHECK_INT(arrived.source, last, "source");
    CHECK_INT(arrived.tag, 7, "tag");
    CHECK_INT(arrived.bytes, 8, "bytes");
    CHECK_INT(arrived.detail, 1, "it was posted");
    CHECK_INT(arrived.source_index, 0, "source index");
    CHECK(arrived.when > 0, "timestamp %lld", (long long)arrived.when);
    CHECK(arrived.safety == MPI_T_CB_REQUIRE_MPI_RESTRICTED ||
              arrived.safety == MPI_T_CB_REQUIRE_THREAD_SAFE,
          "safety %d", arrived.safety);
    CHECK_INT(unexpected.calls, 0, "unexpected messages");
    MPI_Barrier(MPI_COMM_WORLD); /* here and below: no peer goes on before the checks */

    /* Two that are not, on two communicators; the tags tell when they are there. */
    MPI_Isend(&buffer[100], 16, MPI_BYTE, next, 8, MPI_COMM_WORLD, &sends[0]);
    while (!flag)
        MPI_Iprobe(last, 8, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK_INT(unexpected.calls, 1, "unexpected messages");
    CHECK_INT(unexpected.bytes, 16, "bytes");
    CHECK(unexpected.detail >= 1, "queue length %llu", unexpected.detail);
    CHECK_INT(of_dup.calls, 0, "of the other communicator");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(&buffer[100], 24, MPI_BYTE, next, 9, dup, &sends[1]);
    for (flag = 0; !flag;)
        MPI_Iprobe(last, 9, dup, &flag, MPI_STATUS_IGNORE);
    CHECK_INT(of_dup.calls, 1, "of the communicator");
    CHECK_INT(of_dup.tag, 9, "tag");
    CHECK_INT(of_dup.source, last, "source");
    CHECK_INT(unexpected.calls, 2, "unexpected messages");
    MPI_Recv(buffer, 16, MPI_BYTE, last, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(buffer, 24, MPI_BYTE, last, 9, dup, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);

    /* A long synchronous one is announced, where ranks share a node and not to itself. */
    MPI_Irecv(buffer, 1 << 17, MPI_BYTE, last, 10, MPI_COMM_WORLD, &request);
    path.calls = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Ssend(&buffer[1 << 17], 1 << 17, MPI_BYTE, next, 10, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (argc > 1 && test_size > 1) {
        CHECK_INT(path.calls, 1, "paths chosen");
        CHECK_INT(path.bytes, 1 << 17, "bytes");
        CHECK_INT(path.source, last, "source");
        CHECK(path.detail >= 3 && path.detail < 9, "path %llu", path.detail);
    }
    check_errors(u, arrived.instance);

    /* A callback that needs more than it is given: dropped, and reported with the next event. */
    struct seen dropped = {0};
    MPI_T_event_register_callback(u, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, NULL);
    MPI_T_event_register_callback(u, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &dropped, on_event);
    CHECK_INT(MPI_T_event_set_dropped_handler(u, on_dropped), MPI_SUCCESS, "dropped handler");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        MPI_Isend(&buffer[100], 8, MPI_BYTE, next, 11, MPI_COMM_WORLD, &request);
        for (flag = 0; !flag;)
            MPI_Iprobe(last, 11, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK_INT(dropped.calls, i, "calls");
        CHECK_INT(dropped.nested, i, "drops that are reported");
        MPI_Recv(buffer, 8, MPI_BYTE, last, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_T_event_register_callback(u, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE, MPI_INFO_NULL, &dropped,
                                      on_event);
        MPI_Barrier(MPI_COMM_WORLD);
    }

    int one = 1, calls = arrived.calls;
    MPI_T_event_registration all[] = {a, u, p, d};
    for (int i = 0; i < 4; i++)
        CHECK_INT(MPI_T_event_handle_free(all[i], &one, on_free), MPI_SUCCESS, "handle_free");
    CHECK_INT(freed, 4, "calls of the function that frees");
    MPI_Sendrecv(buffer, 8, MPI_BYTE, next, 12, &buffer[100], 8, MPI_BYTE, last, 12, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_INT(arrived.calls, calls, "events after the registration");
    MPI_Comm_free(&dup);
    MPI_T_finalize();
    return test_finish();
}
