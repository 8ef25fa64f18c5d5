/* What a window carries (MPI 5.0, 12.2, 7.7.3, 7.8, 9.3.2): predefined attributes, keyvals whose
 * delete callbacks MPI_Win_free calls, names, error handlers, group, info, and integer handles. */
#include "rma.h"

enum { INTS = 10, DELETIONS = 8 };

static int deleted, order[DELETIONS], copied;
static int handled, handled_code;
static MPI_Win handled_win;

static int copy(MPI_Win win, int key, void *extra, void *in, void *out, int *flag)
{
    (void)win, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    copied++;
    return MPI_SUCCESS;
}

static int record(MPI_Win win, int key, void *value, void *extra)
{
    MPI_Group group;
    (void)key;
    CHECK_INT(*(int *)extra, 4711, "extra state in the delete callback");
    CHECK(MPI_Win_get_group(win, &group) == MPI_SUCCESS, "the window is no use in the callback");
    MPI_Group_free(&group);
    if (deleted < DELETIONS)
        order[deleted] = (int)(intptr_t)value;
    deleted++;
    return MPI_SUCCESS;
}

static int refuse(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)value;
    return *(int *)extra ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void handle(MPI_Win *win, int *code, ...)
{
    handled++;
    handled_win = *win;
    handled_code = *code;
}

static void predefined(const RmaWindow *w)
{
    void *base = &base;
    MPI_Aint *size = NULL;
    int *unit = NULL, *flavor = NULL, *model = NULL, flag = 0;
    const int flavors[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED,
                           MPI_WIN_FLAVOR_DYNAMIC};
    int dynamic = w->kind == RMA_DYNAMIC;
    const char *kind = rma_kinds[w->kind];
    MPI_Win_get_attr(w->win, MPI_WIN_BASE, &base, &flag);
    CHECK(flag && base == (dynamic ? MPI_BOTTOM : (void *)w->base), "%s: MPI_WIN_BASE is %p", kind,
          base);
    MPI_Win_get_attr(w->win, MPI_WIN_SIZE, &size, &flag);
    CHECK(flag && *size == (dynamic ? 0 : w->bytes), "%s: MPI_WIN_SIZE is wrong", kind);
    MPI_Win_get_attr(w->win, MPI_WIN_DISP_UNIT, &unit, &flag);
    CHECK(flag && *unit == w->units[test_rank], "%s: MPI_WIN_DISP_UNIT is wrong", kind);
    MPI_Win_get_attr(w->win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == flavors[w->kind], "%s: MPI_WIN_CREATE_FLAVOR is wrong", kind);
    MPI_Win_get_attr(w->win, MPI_WIN_MODEL, &model, &flag);
    CHECK(flag && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE),
          "%s: MPI_WIN_MODEL is wrong", kind);
    CHECK(MPI_Win_set_attr(w->win, MPI_WIN_SIZE, &flag) != MPI_SUCCESS, "MPI_WIN_SIZE can be set");
    CHECK(MPI_Win_delete_attr(w->win, MPI_WIN_BASE) != MPI_SUCCESS, "MPI_WIN_BASE can be deleted");
}

/* What MPI_WIN_UNIFIED promises (MPI 5.0, 12.4): a rank sees by its own loads what another has put,
 * and another gets what it has stored, without a lock of its own. It makes calls that make progress,
 * but none of the window's but MPI_Win_sync. */
static void unified(const RmaWindow *w)
{
    int *model = NULL, flag = 0, target = test_size - 1, value = 4711, got = 0;
    volatile int *memory = (volatile int *)w->base;
    MPI_Win_get_attr(w->win, MPI_WIN_MODEL, &model, &flag);
    if (!flag || *model != MPI_WIN_UNIFIED)
        return;
    if (test_rank == target)
        memory[0] = memory[1] = 0;
    MPI_Win_lock_all(0, w->win);
    rma_sync_barrier(w->win);
    if (test_rank == 0) {
        MPI_Put(&value, 1, MPI_INT, target, rma_disp(w, target, 0), 1, MPI_INT, w->win);
        MPI_Win_flush(target, w->win);
    }
    if (test_rank == target) {
        while (memory[0] != value) {
            MPI_Win_sync(w->win);
            MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        memory[1] = value + 1;
    }
    rma_sync_barrier(w->win);
    if (test_rank == 0) {
        MPI_Aint at = rma_disp(w, target, sizeof value);
        MPI_Get(&got, 1, MPI_INT, target, at, 1, MPI_INT, w->win);
        MPI_Win_flush(target, w->win);
        CHECK(got == value + 1, "%s: got %d, although its target had stored %d",
              rma_kinds[w->kind], got, value + 1);
    }
    MPI_Win_unlock_all(w->win);
}

/* Attributes of this program: set, replaced, deleted; those that are left go at MPI_Win_free, in an
 * order that the standard leaves open. */
static void keyvals(RmaWindow *w, int key[3])
{
    static int extra = 4711;
    void *value = NULL;
    int flag = 1;
    deleted = copied = 0;
    for (int i = 0; i < 3; i++)
        MPI_Win_create_keyval(i == 2 ? MPI_WIN_NULL_COPY_FN : copy, record, &key[i], &extra);
    MPI_Win_get_attr(w->win, key[0], &value, &flag);
    CHECK(!flag, "an attribute that was never set is there");
    for (int i = 0; i < 3; i++)
        MPI_Win_set_attr(w->win, key[i], (void *)(intptr_t)(100 + i));
    MPI_Win_set_attr(w->win, key[0], (void *)(intptr_t)200); /* deletes 100 */
    CHECK(deleted == 1 && order[0] == 100, "replacing deleted %d values, the first is %d", deleted,
          order[0]);
    MPI_Win_get_attr(w->win, key[0], &value, &flag);
    CHECK(flag && (intptr_t)value == 200, "the replaced attribute is %p", value);
    MPI_Win_delete_attr(w->win, key[1]);
    CHECK(deleted == 2 && order[1] == 101, "MPI_Win_delete_attr deleted %d", order[1]);
    MPI_Win_get_attr(w->win, key[1], &value, &flag);
    CHECK(!flag, "a deleted attribute is there");
    for (int i = 0; i < 3; i++) { /* what still has values lives on */
        MPI_Win_free_keyval(&key[i]);
        CHECK_INT(key[i], MPI_KEYVAL_INVALID, "a freed keyval");
    }
}

static void keyvals_gone(void)
{
    CHECK_INT(deleted, 4, "values that were deleted when the window is free");
    CHECK_INT(order[2] + order[3], 200 + 102, "sum of the values that MPI_Win_free deleted");
    CHECK_INT(copied, 0, "copies: no call duplicates a window");
}

/* A delete callback that fails keeps MPI_Win_free from freeing. */
static void refused(void)
{
    RmaWindow w;
    MPI_Win copy;
    int key, fails = 1, flag = 0;
    void *value;
    rma_open(&w, RMA_ALLOCATE, 8, 1, MPI_INFO_NULL);
    MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
    MPI_Win_create_keyval(MPI_WIN_DUP_FN, refuse, &key, &fails);
    MPI_Win_set_attr(w.win, key, &fails);
    copy = w.win;
    CHECK(MPI_Win_delete_attr(w.win, key) != MPI_SUCCESS, "a failing delete callback is ignored");
    MPI_Win_get_attr(w.win, key, &value, &flag);
    CHECK(flag && value == &fails, "the attribute is gone although its callback failed");
    CHECK(w.win == copy, "the handle has changed");
    fails = 0;
    MPI_Win_free_keyval(&key);
    rma_close(&w);
}

static void names(MPI_Win win, RmaKind kind)
{
    static const char text[] = "a window upon the sea";
    char got[MPI_MAX_OBJECT_NAME + 1], longest[MPI_MAX_OBJECT_NAME + 10];
    int len = -1;
    MPI_Win_get_name(win, got, &len);
    CHECK(len == 0 && got[0] == 0, "%s: the name is \"%s\" at first", rma_kinds[kind], got);
    MPI_Win_set_name(win, text);
    MPI_Win_get_name(win, got, &len);
    CHECK(!strcmp(got, text) && len == (int)strlen(text), "the name is \"%s\" (%d)", got, len);
    memset(longest, 'x', sizeof longest);
    longest[MPI_MAX_OBJECT_NAME - 1] = 0;
    MPI_Win_set_name(win, longest);
    MPI_Win_get_name(win, got, &len);
    CHECK(!strcmp(got, longest) && len == MPI_MAX_OBJECT_NAME - 1,
          "the longest name has %d letters", len);
}

static void errhandlers(MPI_Win win)
{
    MPI_Errhandler first, mine, got;
    int value = 0;
    MPI_Win_get_errhandler(win, &first);
    CHECK(first == MPI_ERRORS_ARE_FATAL, "the error handler is not MPI_ERRORS_ARE_FATAL at first");
    MPI_Errhandler_free(&first);
    MPI_Win_create_errhandler(handle, &mine);
    MPI_Win_set_errhandler(win, mine);
    MPI_Win_get_errhandler(win, &got);
    CHECK(got == mine, "the error handler is not the one that was set");
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&mine);
    handled = 0;
    MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win); /* without an epoch */
    CHECK_INT(handled, 1, "calls of the error handler");
    CHECK(handled_win == win, "the error handler was given another window");
    CHECK_CLASS(handled_code, MPI_ERR_RMA_SYNC, "MPI_Put without an epoch");
    MPI_Win_call_errhandler(win, MPI_ERR_OTHER);
    CHECK(handled == 2 && handled_code == MPI_ERR_OTHER, "MPI_Win_call_errhandler gave %d",
          handled_code);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
}

static void groups(MPI_Win win)
{
    MPI_Group world, group;
    int equal = -1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Win_get_group(win, &group);
    MPI_Group_compare(world, group, &equal);
    CHECK_INT(equal, MPI_IDENT, "comparison of the window's group");
    MPI_Group_free(&world);
    MPI_Group_free(&group);
}

/* A key that no library knows is kept or not; known ones come back with the value in force. */
static void infos(void)
{
    RmaWindow w;
    MPI_Info info = rma_info("accumulate_ordering", "none"), got;
    int flag = 0, len = MPI_MAX_INFO_VAL;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    MPI_Info_set(info, "same_size", "true");
    MPI_Info_set(info, "same_disp_unit", "true");
    MPI_Info_set(info, "accumulate_ops", "same_op");
    MPI_Info_set(info, "mpi_accumulate_granularity", "8");
    MPI_Info_set(info, "mpi_memory_alloc_kinds", "system,unheard:of");
    MPI_Info_set(info, "a key of nobody", "1");
    rma_open(&w, RMA_ALLOCATE, INTS * sizeof(int), sizeof(int), info);
    MPI_Win_get_info(w.win, &got);
    MPI_Info_get_string(got, "accumulate_ordering", &len, value, &flag);
    CHECK(flag && !strcmp(value, "none"), "accumulate_ordering is \"%s\"", value);
    len = MPI_MAX_INFO_VAL;
    MPI_Info_get_string(got, "accumulate_ops", &len, value, &flag);
    CHECK(flag && !strcmp(value, "same_op"), "accumulate_ops is \"%s\"", value);
    len = MPI_MAX_INFO_VAL;
    MPI_Info_get_string(got, "mpi_memory_alloc_kinds", &len, value, &flag);
    CHECK(!flag || (strstr(value, "system") && !strstr(value, "unheard")),
          "mpi_memory_alloc_kinds is \"%s\"", value);
    MPI_Info_free(&got);
    MPI_Win_set_info(w.win, info);
    MPI_Win_get_info(w.win, &got);
    CHECK(got != MPI_INFO_NULL, "MPI_Win_get_info gives MPI_INFO_NULL");
    MPI_Info_free(&got);
    MPI_Info_free(&info);
    rma_close(&w);
}

static void integers(MPI_Win win)
{
    CHECK(MPI_Win_f2c(MPI_Win_c2f(win)) == win, "the Fortran handle is another window");
    CHECK(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL,
          "the Fortran handle of MPI_WIN_NULL");
#if MPI_VERSION >= 5
    CHECK(MPI_Win_fromint(MPI_Win_toint(win)) == win, "the integer handle is another window");
#endif
}

/* The communicator may go before the window. */
static void outlives_communicator(void)
{
    MPI_Comm comm;
    MPI_Win win;
    int *memory, right = (test_rank + 1) % test_size;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, comm, &memory, &win);
    MPI_Comm_free(&comm);
    MPI_Win_fence(0, win);
    MPI_Put(&test_rank, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK_INT(*memory, (test_rank + test_size - 1) % test_size, "value put after MPI_Comm_free");
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int one_node = rma_one_node(), key[3];
    for (int kind = 0; kind < RMA_KINDS; kind++) {
        RmaWindow w;
        if (kind == RMA_SHARED && !one_node)
            continue;
        rma_open(&w, (RmaKind)kind, INTS * sizeof(int), 1 << test_rank % 3, MPI_INFO_NULL);
        errhandlers(w.win);
        predefined(&w);
        unified(&w);
        names(w.win, (RmaKind)kind);
        groups(w.win);
        integers(w.win);
        keyvals(&w, key);
        rma_close(&w);
        keyvals_gone();
    }
    refused();
    infos();
    outlives_communicator();
    return test_finish();
}
