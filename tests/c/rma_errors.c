/* Wrong uses of windows, each refused with the class that MPI 5.0 gives for it (12.6.2; which epoch
 * permits what: 12.5) through the error handler of the window, which stays usable afterwards. What
 * the standard calls erroneous and MPICH 5.0.2 does not detect is asked for under "strict" alone,
 * as is the window's name in the text of the error. */
#include "rma.h"

enum { INTS = 16 };

static int strict;
static const char name[] = "pond";
static int buffer[INTS * 2];

static void refused(int line, int code, int one, int other, const char *says, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int got = -1, len;
    CHECK(code != MPI_SUCCESS, "line %d: no error: %s", line, call);
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_class(code, &got);
    MPI_Error_string(code, text, &len);
    CHECK(got == one || got == other, "line %d: class %d, not %d: %s: %s", line, got, one, call,
          text);
    CHECK(!strict || strstr(text, says), "line %d: \"%s\" does not say \"%s\": %s", line, text,
          says, call);
    char function[64] = ""; /* the text names it without the suffix of its large form */
    snprintf(function, sizeof function, "%.*s", (int)strcspn(call, "( "), call);
    size_t letters = strlen(function);
    if (letters > 2 && !strcmp(function + letters - 2, "_c"))
        function[letters - 2] = 0;
    CHECK(!strict || strstr(text, function), "line %d: \"%s\" does not name %s", line, text,
          function);
}

/* A wrong use that is known by the window, whose name is part of the text. */
#define REFUSED(call, class) refused(__LINE__, call, class, class, name, #call)
/* The same, where MPI leaves the class open between two. */
#define EITHER(call, one, other) refused(__LINE__, call, one, other, name, #call)
/* Wrong before there is a window. */
#define NO_WINDOW(call, class) refused(__LINE__, call, class, class, "", #call)

/* Windows of a library that has none end the program. */
static void need(int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &len);
    fprintf(stderr, "rank %d: no window: %s\n", test_rank, text);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static MPI_Win window(RmaKind kind, MPI_Info info, void **memory)
{
    MPI_Win win;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Aint bytes = INTS * sizeof(int);
    *memory = kind == RMA_CREATE ? test_alloc((size_t)bytes) : NULL;
    if (kind == RMA_CREATE)
        need(MPI_Win_create(*memory, bytes, sizeof(int), info, world, &win));
    else if (kind == RMA_ALLOCATE)
        need(MPI_Win_allocate(bytes, sizeof(int), info, world, memory, &win));
    else
        need(MPI_Win_create_dynamic(info, world, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_set_name(win, name);
    return win;
}

static void creation(void)
{
    MPI_Win win = MPI_WIN_NULL;
    void *base = NULL;
    NO_WINDOW(MPI_Win_create(buffer, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_SIZE);
    NO_WINDOW(MPI_Win_create(buffer, 4, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_DISP);
    NO_WINDOW(MPI_Win_create(buffer, 4, -4, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_DISP);
    NO_WINDOW(MPI_Win_create(buffer, 4, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    NO_WINDOW(MPI_Win_allocate(-1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win), MPI_ERR_SIZE);
    NO_WINDOW(MPI_Win_allocate(4, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win), MPI_ERR_DISP);
    NO_WINDOW(MPI_Win_allocate(4, 1, MPI_INFO_NULL, MPI_COMM_NULL, &base, &win), MPI_ERR_COMM);
    NO_WINDOW(MPI_Win_allocate_shared(-1, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win),
              MPI_ERR_SIZE);
    NO_WINDOW(MPI_Win_allocate_shared(4, 0, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win),
              MPI_ERR_DISP);
    NO_WINDOW(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    CHECK(win == MPI_WIN_NULL, "a call that failed has set the window");
}

/* More than there is, at one rank or at all: an error at all ranks, and nothing else suffers. Where
 * it is known, the text has the bytes. */
static void too_much(void)
{
    static const char bytes[] = "35184372088832";
    MPI_Aint much = (MPI_Aint)1 << 45;
    MPI_Win win = MPI_WIN_NULL;
    void *base = NULL;
    for (int all = 0; all < 2; all++) {
        int wants_much = all || test_rank == 0;
        int code = MPI_Win_allocate(wants_much ? much : 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                                    &win);
        refused(__LINE__, code, MPI_ERR_NO_MEM, MPI_ERR_NO_MEM, wants_much ? bytes : "rank 0",
                "MPI_Win_allocate of 32 TiB");
    }
    refused(__LINE__,
            MPI_Win_allocate_shared(much, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win),
            MPI_ERR_NO_MEM, MPI_ERR_NO_MEM, bytes, "MPI_Win_allocate_shared of 32 TiB");
}

/* A setting that one rank cannot read: an error at all ranks, none of which waits for it. */
static void wrong_setting(void)
{
    static const char *const settings[] = {"MICA_WINDOW_HELP_MIN", "MICA_WINDOW_LOCK",
                                           "MICA_WINDOW_ACCESS"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        MPI_Win win = MPI_WIN_NULL;
        void *base = NULL;
        char before[64] = "";
        const char *set = getenv(settings[i]);
        if (set)
            snprintf(before, sizeof before, "%s", set);
        if (test_rank == 0)
            setenv(settings[i], "many", 1);
        int code = MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        refused(__LINE__, code, MPI_ERR_OTHER, MPI_ERR_OTHER,
                test_rank == 0 ? settings[i] : "rank 0", "MPI_Win_allocate");
        CHECK(win == MPI_WIN_NULL, "a call that failed because of %s has set the window",
              settings[i]);
        if (set)
            setenv(settings[i], before, 1);
        else
            unsetenv(settings[i]);
    }
}

static void null_window(void)
{
    MPI_Win none = MPI_WIN_NULL;
    MPI_Group group;
    MPI_Request request;
    int flag, *value;
    NO_WINDOW(MPI_Put(buffer, 1, MPI_INT, 0, 0, 1, MPI_INT, none), MPI_ERR_WIN);
    NO_WINDOW(MPI_Rget(buffer, 1, MPI_INT, 0, 0, 1, MPI_INT, none, &request), MPI_ERR_WIN);
    NO_WINDOW(MPI_Fetch_and_op(buffer, buffer + 1, MPI_INT, 0, 0, MPI_SUM, none), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_fence(0, none), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_unlock_all(none), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_flush(0, none), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_sync(none), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_test(none, &flag), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_get_group(none, &group), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_get_attr(none, MPI_WIN_BASE, &value, &flag), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_set_name(none, name), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_attach(none, buffer, 4), MPI_ERR_WIN);
    NO_WINDOW(MPI_Win_free(&none), MPI_ERR_WIN);
}

/* Nothing is open: no operation, and nothing to end or to flush. */
static void without_epoch(MPI_Win win)
{
    int *b = buffer, flag;
    MPI_Request request;
    REFUSED(MPI_Put(b, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Get(b, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Accumulate(b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Get_accumulate(b, 1, MPI_INT, b + 1, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win),
            MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Fetch_and_op(b, b + 1, MPI_INT, 0, 0, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Compare_and_swap(b, b + 1, b + 2, MPI_INT, 0, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Rput(b, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Rget(b, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_flush_local(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_sync(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
}

static void in_passive_epoch(MPI_Win win)
{
    MPI_Group group;
    MPI_Win copy = win;
    int other = (test_rank + 1) % test_size;
    MPI_Win_get_group(win, &group);
    MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_start(group, MPI_MODE_NOCHECK, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    if (strict) {
        if (other != test_rank) {
            REFUSED(MPI_Put(buffer, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
            REFUSED(MPI_Win_flush(other, win), MPI_ERR_RMA_SYNC);
            REFUSED(MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC);
        }
        REFUSED(MPI_Win_free(&copy), MPI_ERR_RMA_SYNC);
        CHECK(copy == win, "MPI_Win_free of a locked window has changed the handle");
    }
    MPI_Win_unlock(test_rank, win);
    MPI_Win_lock_all(0, win);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock(test_rank, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_start(group, MPI_MODE_NOCHECK, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    MPI_Win_unlock_all(win);
    MPI_Group_free(&group);
}

/* Request forms and flushes belong to passive target epochs (12.3.5, 12.5.4). */
static void in_active_epoch(MPI_Win win)
{
    MPI_Group world, self;
    MPI_Request request;
    MPI_Comm_group(MPI_COMM_SELF, &self);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int other = (test_rank + 1) % test_size;
    MPI_Win_fence(0, win);
    MPI_Put(buffer, 1, MPI_INT, test_rank, 0, 1, MPI_INT, win);
    REFUSED(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    if (strict) {
        REFUSED(MPI_Rput(buffer, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
        REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
        REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_post(self, 0, win);
    REFUSED(MPI_Win_post(self, 0, win), MPI_ERR_RMA_SYNC);
    MPI_Win_start(self, 0, win);
    REFUSED(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    if (strict && other != test_rank)
        REFUSED(MPI_Put(buffer, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    if (strict)
        REFUSED(MPI_Rput(buffer, 1, MPI_INT, test_rank, 0, 1, MPI_INT, win, &request),
                MPI_ERR_RMA_SYNC);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Group_free(&self);
    MPI_Group_free(&world);
}

static void arguments(MPI_Win win)
{
    MPI_Group group;
    MPI_Win_get_group(win, &group);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, test_size, 0, win), MPI_ERR_RANK);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, -77, 0, win), MPI_ERR_RANK);
    REFUSED(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    REFUSED(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    if (strict) { /* MPICH: MPI_ERR_ARG for the first two */
        REFUSED(MPI_Win_lock(4711, 0, 0, win), MPI_ERR_LOCKTYPE);
        REFUSED(MPI_Win_fence(1 << 30, win), MPI_ERR_ASSERT);
        REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, 0, 1 << 30, win), MPI_ERR_ASSERT);
        REFUSED(MPI_Win_lock_all(1 << 30, win), MPI_ERR_ASSERT);
        REFUSED(MPI_Win_start(group, 1 << 30, win), MPI_ERR_ASSERT);
        REFUSED(MPI_Win_post(group, 1 << 30, win), MPI_ERR_ASSERT);
    }
    MPI_Group_free(&group);
}

/* The text of an operation outside of the window has target and displacement. */
static void outside(int code)
{
    char target[32], disp[32];
    snprintf(target, sizeof target, "rank %d", test_size - 1);
    snprintf(disp, sizeof disp, "%d", INTS + 77);
    refused(__LINE__, code, MPI_ERR_RMA_RANGE, MPI_ERR_RMA_RANGE, target, "MPI_Put");
    refused(__LINE__, code, MPI_ERR_RMA_RANGE, MPI_ERR_RMA_RANGE, disp, "MPI_Put");
}

static void target_arguments(MPI_Win win)
{
    int *b = buffer;
    REFUSED(MPI_Put(b, 1, MPI_INT, test_size, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    REFUSED(MPI_Get(b, 1, MPI_INT, -77, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    REFUSED(MPI_Fetch_and_op(b, b + 1, MPI_INT, test_size, 0, MPI_SUM, win), MPI_ERR_RANK);
    REFUSED(MPI_Put(b, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    REFUSED(MPI_Put(b, 1, MPI_INT, 0, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    REFUSED(MPI_Get_c(b, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    REFUSED(MPI_Put(b, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    REFUSED(MPI_Put(b, 1, MPI_INT, 0, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    EITHER(MPI_Put(b, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_DISP, MPI_ERR_RMA_RANGE);
    if (!strict)
        return;
    outside(MPI_Put(b, 1, MPI_INT, test_size - 1, INTS + 77, 1, MPI_INT, win));
    REFUSED(MPI_Put(b, 1, MPI_INT, 0, INTS, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    REFUSED(MPI_Get(b, 2, MPI_INT, 0, INTS - 1, 2, MPI_INT, win), MPI_ERR_RMA_RANGE);
    REFUSED(MPI_Accumulate(b, INTS + 1, MPI_INT, 0, 0, INTS + 1, MPI_INT, MPI_SUM, win),
            MPI_ERR_RMA_RANGE);
    REFUSED(MPI_Compare_and_swap(b, b, b + 1, MPI_INT, 0, INTS, win), MPI_ERR_RMA_RANGE);
    EITHER(MPI_Put(b, 1, MPI_INT, 0, PTRDIFF_MAX / 2, 1, MPI_INT, win), MPI_ERR_RMA_RANGE,
           MPI_ERR_DISP);
    REFUSED(MPI_Put_c(b, PTRDIFF_MAX, MPI_INT, 0, 0, PTRDIFF_MAX, MPI_INT, win), MPI_ERR_RMA_RANGE);
}

static void user_op(void *in, void *inout, int *n, MPI_Datatype *t)
{
    (void)in, (void)inout, (void)n, (void)t;
}

static void operators(MPI_Win win)
{
    int *b = buffer;
    double d[3] = {0};
    MPI_Op op;
    MPI_Datatype two, raw;
    MPI_Op_create(user_op, 1, &op);
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_contiguous(2, MPI_INT, &raw);
    MPI_Type_commit(&two);
    REFUSED(MPI_Accumulate(b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    REFUSED(MPI_Accumulate(b, 1, MPI_INT, 0, 0, 1, MPI_INT, op, win), MPI_ERR_OP);
    REFUSED(MPI_Get_accumulate(b, 1, MPI_INT, b + 1, 1, MPI_INT, 0, 0, 1, MPI_INT, op, win),
            MPI_ERR_OP);
    REFUSED(MPI_Fetch_and_op(b, b + 1, two, 0, 0, MPI_SUM, win), MPI_ERR_TYPE);
    REFUSED(MPI_Compare_and_swap(d, d + 1, d + 2, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE);
    REFUSED(MPI_Put(b, 1, raw, 0, 0, 1, two, win), MPI_ERR_TYPE); /* not committed */
    if (strict) { /* one predefined type on both sides; MPI_NO_OP has no use without a result */
        REFUSED(MPI_Accumulate(d, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP);
        REFUSED(MPI_Accumulate(b, 1, MPI_INT, 0, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
        REFUSED(MPI_Accumulate(b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
        REFUSED(MPI_Fetch_and_op(b, b + 1, MPI_INT, 0, 0, op, win), MPI_ERR_OP);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&two);
    MPI_Type_free(&raw);
}

static void flavors(MPI_Win fixed)
{
    void *memory, *base;
    int unit, b[4] = {0};
    MPI_Aint bytes, at, end;
    MPI_Win dynamic = window(RMA_DYNAMIC, MPI_INFO_NULL, &memory);
    MPI_Get_address(b, &at);
    MPI_Get_address(b + 4, &end);
    REFUSED(MPI_Win_attach(fixed, b, sizeof b), MPI_ERR_RMA_FLAVOR);
    REFUSED(MPI_Win_detach(fixed, b), MPI_ERR_RMA_FLAVOR);
    REFUSED(MPI_Win_shared_query(dynamic, 0, &bytes, &unit, &base), MPI_ERR_RMA_FLAVOR);
    REFUSED(MPI_Win_attach(dynamic, b, -1), MPI_ERR_SIZE);
    if (strict) {
        MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, dynamic);
        REFUSED(MPI_Put(b, 1, MPI_INT, test_rank, at, 1, MPI_INT, dynamic), MPI_ERR_RMA_RANGE);
        MPI_Win_attach(dynamic, b, sizeof b);
        REFUSED(MPI_Win_attach(dynamic, b + 1, sizeof *b), MPI_ERR_RMA_ATTACH);
        REFUSED(MPI_Get(buffer, 5, MPI_INT, test_rank, at, 5, MPI_INT, dynamic), MPI_ERR_RMA_RANGE);
        REFUSED(MPI_Get(buffer, 1, MPI_INT, test_rank, end, 1, MPI_INT, dynamic),
                MPI_ERR_RMA_RANGE);
        REFUSED(MPI_Win_detach(dynamic, b + 1), MPI_ERR_RMA_ATTACH);
        MPI_Win_detach(dynamic, b);
        REFUSED(MPI_Get(buffer, 1, MPI_INT, test_rank, at, 1, MPI_INT, dynamic), MPI_ERR_RMA_RANGE);
        REFUSED(MPI_Win_detach(dynamic, b), MPI_ERR_RMA_ATTACH);
        MPI_Win_unlock(test_rank, dynamic);
    }
    MPI_Win_free(&dynamic);
}

/* A window without locks, a freed window, a window over fewer ranks. */
static void others(void)
{
    void *memory;
    MPI_Info info = rma_info("no_locks", "true");
    MPI_Win win = window(RMA_ALLOCATE, info, &memory), copy = win;
    MPI_Group world;
    MPI_Info_free(&info);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    MPI_Win_free(&win);
    NO_WINDOW(MPI_Win_fence(0, copy), MPI_ERR_WIN);
    NO_WINDOW(MPI_Put(buffer, 1, MPI_INT, 0, 0, 1, MPI_INT, copy), MPI_ERR_WIN);
    if (test_size > 1) {
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Win_allocate(4, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        MPI_Win_set_name(win, name);
        REFUSED(MPI_Win_start(world, 0, win), MPI_ERR_GROUP);
        REFUSED(MPI_Win_post(world, 0, win), MPI_ERR_GROUP);
        REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win), MPI_ERR_RANK);
        MPI_Win_free(&win);
        MPI_Group_free(&world);
    }
}

/* After all those errors it still does what it should. */
static void usable(MPI_Win win, const int *memory)
{
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    int value = 1000 + test_rank;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    MPI_Put(&value, 1, MPI_INT, right, INTS - 1, 1, MPI_INT, win);
    MPI_Win_unlock(right, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win);
    CHECK_INT(memory[INTS - 1], 1000 + left, "value put after errors");
    MPI_Win_unlock(test_rank, win);
}

int main(int argc, char **argv)
{
    strict = argc > 1 && !strcmp(argv[1], "strict");
    test_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    creation();
    null_window();
    for (int kind = RMA_CREATE; kind <= RMA_ALLOCATE; kind++) {
        void *memory;
        MPI_Win win = window((RmaKind)kind, MPI_INFO_NULL, &memory);
        without_epoch(win);
        arguments(win);
        in_passive_epoch(win);
        in_active_epoch(win);
        MPI_Win_lock_all(0, win);
        target_arguments(win);
        operators(win);
        MPI_Win_unlock_all(win);
        flavors(win);
        usable(win, memory);
        MPI_Win_free(&win);
        if (kind == RMA_CREATE)
            free(memory);
    }
    if (strict) {
        others();
        too_much();
        wrong_setting();
    }
    return test_finish();
}
