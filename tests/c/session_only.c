/* Sessions without MPI_Init: two at once, their process sets and info, communicators from groups
 * (all ranks, halves at the same time, reversed, with string tags that keep them apart), error
 * handlers on sessions; a session after the last one was finalized. "strict" adds what the standard
 * asks and MPICH does not do. */
#include "test.h"

static int calls, last_code;
static MPI_Session last_session;

static void note(MPI_Session *session, int *code, ...)
{
    calls++;
    last_session = *session;
    last_code = *code;
}

static MPI_Comm world_of(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

/* Sums a value over the ranks of `comm` and frees it. */
static void sum(MPI_Comm comm, int value, int expected, const char *what)
{
    int total = -1;
    CHECK(comm != MPI_COMM_NULL, "%s: no communicator", what);
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_INT(total, expected, what);
    MPI_Comm_free(&comm);
    CHECK(comm == MPI_COMM_NULL, "%s: handle after Comm_free", what);
}

static void process_sets(MPI_Session session, int strict)
{
    int n = -1, world = 0, self = 0;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
    CHECK(n >= 2, "%d process sets", n);
    for (int i = 0; i < n; i++) {
        char name[MPI_MAX_PSET_NAME_LEN] = "", cut[5] = "????", size[16] = "?";
        int len = 0, room = sizeof size, found = 0, members = -1;
        MPI_Info info;
        MPI_Group group;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL);
        CHECK(len > 1 && len <= MPI_MAX_PSET_NAME_LEN, "process set %d: length %d", i, len);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name);
        CHECK_INT(strlen(name) + 1, len, "length of a process set's name");
        len = 4;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, cut);
        CHECK(!strncmp(cut, name, 3) && cut[3] == 0, "cut name \"%s\" of \"%s\"", cut, name);
        if (strict)
            CHECK_INT(len, strlen(name) + 1, "length needed");
        world += !strcmp(name, "mpi://WORLD");
        self += !strcmp(name, "mpi://SELF");
        MPI_Session_get_pset_info(session, name, &info);
        MPI_Info_get_string(info, "mpi_size", &room, size, &found);
        MPI_Info_free(&info);
        MPI_Group_from_session_pset(session, name, &group);
        MPI_Group_size(group, &members);
        MPI_Group_free(&group);
        CHECK(found && atoi(size) == members, "\"%s\": mpi_size %s, group of %d", name, size, members);
    }
    /* case does not count */
    static const char *const spellings[] = {"mpi://world", "MPI://World", "mpi://self", "MPI://SELF"};
    for (int i = 0; i < 4; i++) {
        MPI_Group group = MPI_GROUP_NULL;
        MPI_Info info = MPI_INFO_NULL;
        int members = -1, all = i < 2 ? test_size : 1;
        CHECK_INT(MPI_Group_from_session_pset(session, spellings[i], &group), MPI_SUCCESS, spellings[i]);
        if (group != MPI_GROUP_NULL) {
            MPI_Group_size(group, &members);
            MPI_Group_free(&group);
        }
        CHECK(members == all || (all < 0 && members > 0), "\"%s\" has %d members", spellings[i], members);
        CHECK_INT(MPI_Session_get_pset_info(session, spellings[i], &info), MPI_SUCCESS, spellings[i]);
        if (info != MPI_INFO_NULL)
            MPI_Info_free(&info);
    }
    CHECK(world == 1 && self == 1, "mpi://WORLD %d times, mpi://SELF %d times", world, self);
}

static void subgroups(MPI_Session session)
{
    MPI_Group all, half, reversed;
    MPI_Comm comm = MPI_COMM_NULL;
    int expected = 0, rank = -1;
    int stride[1][3] = {{test_rank % 2, test_size - 1, 2}};
    int back[1][3] = {{test_size - 1, 0, -1}};
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);

    /* odd and even ranks, at the same time and by the same name */
    MPI_Group_range_incl(all, 1, stride, &half);
    for (int r = test_rank % 2; r < test_size; r += 2)
        expected += r;
    for (int i = 0; i < 3; i++) {
        MPI_Comm_create_from_group(half, "half", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
        sum(comm, test_rank, expected, "sum over half of the ranks");
    }
    MPI_Group_range_incl(all, 1, back, &reversed);
    MPI_Comm_create_from_group(reversed, "reversed", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_rank(comm, &rank);
    CHECK_INT(rank, test_size - 1 - test_rank, "rank in the reversed group");
    sum(comm, 1, test_size, "size of the reversed group");
    MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "empty", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    CHECK(comm == MPI_COMM_NULL, "a communicator without ranks");
    MPI_Group_free(&reversed);
    MPI_Group_free(&half);
    MPI_Group_free(&all);
}

/* Messages with the same tag on two sessions' communicators do not mix. */
static void isolation(MPI_Comm one, MPI_Comm two)
{
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    int mine[2] = {100 + test_rank, 200 + test_rank}, got[2] = {-1, -1};
    MPI_Request r[2];
    MPI_Isend(&mine[0], 1, MPI_INT, to, 5, one, &r[0]);
    MPI_Isend(&mine[1], 1, MPI_INT, to, 5, two, &r[1]);
    MPI_Recv(&got[1], 1, MPI_INT, from, 5, two, MPI_STATUS_IGNORE);
    MPI_Recv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, one, MPI_STATUS_IGNORE);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    CHECK_INT(got[0], 100 + from, "from the first session");
    CHECK_INT(got[1], 200 + from, "from the second session");

    /* a request that belongs to no communicator */
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(MPI_PROC_NULL, 5, one, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC, "message from MPI_PROC_NULL");
    MPI_Imrecv(got, 1, MPI_INT, &message, r);
    MPI_Wait(r, &status);
    CHECK_INT(status.MPI_SOURCE, MPI_PROC_NULL, "source of no message");
}

static void errors(MPI_Session quiet, MPI_Session noting, MPI_Errhandler handler, int strict)
{
    MPI_Group group = MPI_GROUP_EMPTY;
    MPI_Info info;
    MPI_Errhandler got;
    char name[8];
    int n, len = sizeof name, before = calls;
    MPI_Session_get_num_psets(quiet, MPI_INFO_NULL, &n);
    CHECK_CLASS(MPI_Session_get_nth_pset(quiet, MPI_INFO_NULL, n, &len, name), MPI_ERR_ARG, "pset too far");
    CHECK_CLASS(MPI_Session_get_nth_pset(quiet, MPI_INFO_NULL, -1, &len, name), MPI_ERR_ARG, "pset -1");
    CHECK_CLASS(MPI_Session_get_pset_info(quiet, "mpi://NONE", &info), MPI_ERR_ARG, "info of no pset");
    if (strict) {
        CHECK_CLASS(MPI_Group_from_session_pset(quiet, "mpi://NONE", &group), MPI_ERR_ARG,
                    "group of no pset");
        CHECK(group == MPI_GROUP_NULL, "a group of no pset");
    }
    CHECK_INT(calls, before, "calls of the other session's handler");
    MPI_Session_get_nth_pset(noting, MPI_INFO_NULL, n, &len, name);
    CHECK_INT(calls, before + 1, "calls of the session's handler");
    CHECK(last_session == noting, "the handler saw another session");
    CHECK_CLASS(last_code, MPI_ERR_ARG, "code in the handler");
    MPI_Session_call_errhandler(noting, MPI_ERR_SERVICE);
    CHECK_INT(calls, before + 2, "calls by hand");
    CHECK_CLASS(last_code, MPI_ERR_SERVICE, "code in the handler");
    MPI_Session_get_errhandler(noting, &got);
    CHECK(got == handler, "get_errhandler gives another handler");
    MPI_Errhandler_free(&got);
    MPI_Session_set_errhandler(noting, MPI_ERRORS_RETURN);
    MPI_Session_get_nth_pset(noting, MPI_INFO_NULL, n, &len, name);
    CHECK_INT(calls, before + 2, "calls of a replaced handler");
    MPI_Session_set_errhandler(noting, handler);
    if (strict) {
        MPI_Session none = MPI_SESSION_NULL, before_it = noting;
        MPI_Comm comm = MPI_COMM_SELF, *null = NULL;
        MPI_Info wrong = (MPI_Info)(intptr_t)test_size;
        CHECK_CLASS(MPI_Session_init(wrong, MPI_ERRORS_RETURN, &none), MPI_ERR_INFO, "init with a bad info");
        MPI_Session_init(wrong, handler, &none);
        CHECK_INT(calls, before + 3, "calls for MPI_Session_init's own error");
        CHECK(last_session == MPI_SESSION_NULL, "the handler saw a session");
        MPI_Session_set_errhandler(before_it, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Session_set_errhandler(before_it, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER,
                    "no handler");
        CHECK_CLASS(MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
                    MPI_ERR_GROUP, "communicator of no group");
        CHECK_CLASS(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
                    MPI_ERR_ARG, "no string tag");
        CHECK_CLASS(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, null),
                    MPI_ERR_ARG, "no place for the communicator");
        CHECK_CLASS(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "x", MPI_INFO_NULL, handler, &comm),
                    MPI_ERR_ARG, "a session's handler on a communicator");
        if (test_size > 1) {
            MPI_Group all, others;
            MPI_Group_from_session_pset(quiet, "mpi://WORLD", &all);
            MPI_Group_excl(all, 1, &test_rank, &others);
            CHECK_CLASS(MPI_Comm_create_from_group(others, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
                        MPI_ERR_GROUP, "communicator of others");
            MPI_Group_free(&others);
            MPI_Group_free(&all);
        }
        MPI_Session_set_errhandler(before_it, handler);
    }
}

int main(int argc, char **argv)
{
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    int flag = -1, failed = 0, found = 0, room = 32, *bound;
    char level[32] = "";
    MPI_Session one, two, three;
    MPI_Errhandler handler;
    MPI_Info info, used;
    MPI_Comm c1, c2, c3, half;

    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    MPI_Session_create_errhandler(note, &handler);
    MPI_Session_init(info, MPI_ERRORS_RETURN, &one);
    MPI_Session_init(MPI_INFO_NULL, handler, &two);
    CHECK(one != MPI_SESSION_NULL && two != MPI_SESSION_NULL && one != two, "handles of the sessions");
    MPI_Info_free(&info);
    c1 = world_of(one, "org.mica.test.one");
    MPI_Comm_rank(c1, &test_rank);
    MPI_Comm_size(c1, &test_size);
    c2 = world_of(two, "org.mica.test.two");
    MPI_Initialized(&flag);
    CHECK_INT(flag, 0, "Initialized with sessions only");
    MPI_Session_get_info(one, &used);
    MPI_Info_get_string(used, "thread_level", &room, level, &found);
    CHECK(found && !strcmp(level, "MPI_THREAD_MULTIPLE"), "thread_level \"%s\"", level);
    MPI_Info_free(&used);

    process_sets(one, strict);
    process_sets(two, strict);
    subgroups(two);
    isolation(c1, c2);
    errors(one, two, handler, strict);
    flag = 0;
    MPI_Comm_get_attr(c1, MPI_TAG_UB, &bound, &flag);
    CHECK(flag && *bound >= 32767, "MPI_TAG_UB on a session's communicator");
    MPI_Comm_split(c1, test_rank % 2, 0, &half);
    sum(half, 1, (test_size + 1 - test_rank % 2) / 2, "ranks of a split");
    MPI_Comm_dup(c1, &c3);
    sum(c3, 1, test_size, "ranks of a duplicate");

    MPI_Comm_free(&c1);
    MPI_Session_finalize(&one);
    CHECK(one == MPI_SESSION_NULL, "handle after Session_finalize");
    sum(c2, 1, test_size, "ranks of the second session, without the first");
    MPI_Errhandler_free(&handler);
    MPI_Session_finalize(&two);
    MPI_Finalized(&flag);
    CHECK_INT(flag, 0, "Finalized after sessions");

    for (int again = 0; again < 3; again++) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &three);
        c3 = world_of(three, "org.mica.test.three");
        MPI_Allreduce(&test_failures, &failed, 1, MPI_INT, MPI_SUM, c3);
        MPI_Comm_free(&c3);
        MPI_Session_finalize(&three);
    }
    if (test_rank == 0 && failed == 0)
        printf("No Errors\n");
    return failed != 0;
}
