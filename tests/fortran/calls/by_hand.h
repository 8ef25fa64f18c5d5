/* Functions of C whose parameters and results are not those of Fortran (by_hand.py), and the
 * table of the library (crates/front-end/src/table.rs). A function that gets a callback calls
  * it at
 * once: what the procedure of Fortran sees is a line of its own, and so is what it returned. */

static void returned(int code)
{
    line("returned");
    show_integer("code", code);
}

/* Texts up to a null. */
static void show_texts(const char *name, char **values)
{
    if (values == NULL) {
        show_address(name, values);
        return;
    }
    fprintf(record, " %s=", name);
    for (; *values != NULL; values++)
        fprintf(record, "\"%s\";", *values);
}

static int arrived_MPI_Comm_spawn(const char *called, const char *command, char **argv,
    int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm, int *codes)
{
    line(called);
    show_text("command", command);
    show_texts("argv", argv);
    show_integer("maxprocs", maxprocs);
    show_handle("info", info);
    show_integer("root", root);
    show_handle("comm", comm);
    show_address("array_of_errcodes", codes);
    if (CODE != MPI_SUCCESS)
        return end();
    *intercomm = handle_result(0, 0);
    for (int i = 0; codes != NULL && i < maxprocs; i++)
        codes[i] = result(1, i);
    return end();
}

static int arrived_MPI_Comm_spawn_multiple(const char *called, int count, char **commands,
    char ***argvs, const int *maxprocs, const MPI_Info *infos, int root, MPI_Comm comm,
    MPI_Comm *intercomm, int *codes)
{
    line(called);
    for (int i = 0; i < count; i++) {
        show_text("command", commands[i]);
        show_texts("argv", argvs == NULL ? NULL : argvs[i]);
    }
    show_integers("maxprocs", maxprocs, count);
    show_handles("infos", infos, count);
    show_integer("root", root);
    show_handle("comm", comm);
    show_address("array_of_errcodes", codes);
    if (CODE != MPI_SUCCESS)
        return end();
    *intercomm = handle_result(0, 0);
    for (int i = 0; codes != NULL && i < 3; i++)
        codes[i] = result(1, i);
    return end();
}

/* Attributes: what has been set last, and what MPI and programs in C have set. */
static void *last_attribute;

static int set_attribute(const char *called, void *object, int keyval, void *value)
{
    line(called);
    show_handle("object", object);
    show_integer("keyval", keyval);
    show_integer("value", *(long long *) value);
    if (CODE == MPI_SUCCESS)
        last_attribute = value;
    return end();
}

static int get_attribute(const char *called, void *object, int keyval, void *place, int *flag)
{
    static int one = 4711;
    static MPI_Aint bytes = 1LL << 42;
    line(called);
    show_handle("object", object);
    show_integer("keyval", keyval);
    if (CODE != MPI_SUCCESS)
        return end();
    *flag = keyval != 3;
    if (keyval == 1)
        *(void **) place = last_attribute;
    else if (keyval == 2)
        *(void **) place = (void *) 123456;
    else if (keyval == MPI_WIN_BASE)
        *(void **) place = (void *) 654321;
    else if (keyval == MPI_WIN_SIZE)
        *(void **) place = &bytes;
    else if (keyval > 3)
        *(void **) place = &one;
    return end();
}

#define ATTRIBUTES(set, get, type)                                             \
    static int arrived_##set(const char *called, type object, int keyval, void *value) \
    {                                                                          \
        return set_attribute(called, object, keyval, value);                   \
    }                                                                          \
    static int arrived_##get(const char *called, type object, int keyval, void *place, int *flag) \
    {                                                                          \
        return get_attribute(called, object, keyval, place, flag);             \
    }
ATTRIBUTES(MPI_Comm_set_attr, MPI_Comm_get_attr, MPI_Comm)
ATTRIBUTES(MPI_Type_set_attr, MPI_Type_get_attr, MPI_Datatype)
ATTRIBUTES(MPI_Win_set_attr, MPI_Win_get_attr, MPI_Win)
ATTRIBUTES(MPI_Attr_put, MPI_Attr_get, MPI_Comm)

static int arrived_MPI_Info_get(const char *called, MPI_Info info, const char *key, int length,
    char *value, int *flag)
{
    line(called);
    show_handle("info", info);
    show_text("key", key);
    show_integer("valuelen", length);
    if (CODE != MPI_SUCCESS)
        return end();
    *flag = !SPECIAL;
    if (!SPECIAL)
        strncat(strcpy(value, ""), "0123456789", (size_t) length);
    return end();
}

/* Stores a text as MPI_Info_get_string and MPI_Session_get_nth_pset do: the length counts the
 * zero. */
static void sized(int *length, char *place, const char *value)
{
    if (*length > 0)
        strncat(strcpy(place, ""), value, (size_t) *length - 1);
    *length = (int) strlen(value) + 1;
}

static int arrived_MPI_Info_get_string(const char *called, MPI_Info info, const char *key,
    int *length, char *value, int *flag)
{
    line(called);
    show_handle("info", info);
    show_text("key", key);
    show_integer("buflen", *length);
    if (CODE != MPI_SUCCESS)
        return end();
    *flag = !SPECIAL;
    if (!SPECIAL)
        sized(length, value, strcmp(key, "empty") == 0 ? "" : "0123456789");
    return end();
}

static int arrived_MPI_Session_get_nth_pset(const char *called, MPI_Session session,
    MPI_Info info, int n, int *length, char *name)
{
    line(called);
    show_handle("session", session);
    show_handle("info", info);
    show_integer("n", n);
    show_integer("pset_len", *length);
    if (CODE == MPI_SUCCESS)
        sized(length, name, "0123456789");
    return end();
}

static int arrived_MPI_Pcontrol(const char *called, int level)
{
    line(called);
    show_integer("level", level);
    return end();
}

static double arrived_MPI_Wtime(const char *called)
{
    line(called);
    end();
    return K + 0.5;
}

static double arrived_MPI_Wtick(const char *called)
{
    return arrived_MPI_Wtime(called);
}

static MPI_Aint arrived_MPI_Aint_add(const char *called, MPI_Aint first, MPI_Aint second)
{
    line(called);
    show_integer("first", first);
    show_integer("second", second);
    end();
    return wide_result(0, 0);
}

static MPI_Aint arrived_MPI_Aint_diff(const char *called, MPI_Aint first, MPI_Aint second)
{
    return arrived_MPI_Aint_add(called, first, second);
}

/* Callbacks. */

static int arrived_MPI_Grequest_start(const char *called, MPI_Grequest_query_function *query,
    MPI_Grequest_free_function *free_function, MPI_Grequest_cancel_function *cancel, void *state,
    MPI_Request *request)
{
    MPI_Status filled = {0};
    line(called);
    if (CODE != MPI_SUCCESS)
        return end();
    returned(query(state, &filled));
    show_status("status", &filled);
    returned(cancel(state, SPECIAL));
    returned(free_function(state));
    *request = handle_result(0, 0);
    return end();
}

#define CONVERSION(name, convert)                                              \
    do {                                                                       \
        line(name);                                                            \
        show_address("function", convert);                                     \
        if (convert != NULL)                                                   \
            returned(convert(block + 64, handle_result(1, 0), 5, block + 96, 1LL << 40, state)); \
    } while (0)
#define REGISTER(function, type)                                               \
    static int arrived_##function(const char *called, const char *name, type *read, type *write, \
        MPI_Datarep_extent_function *extent, void *state)                      \
    {                                                                          \
        MPI_Aint bytes = 0;                                                    \
        line(called);                                                          \
        show_text("datarep", name);                                            \
        if (CODE != MPI_SUCCESS)                                               \
            return end();                                                      \
        CONVERSION("read", read);                                              \
        CONVERSION("write", write);                                            \
        returned(extent(handle_result(2, 0), &bytes, state));                  \
        show_integer("extent", bytes);                                         \
        return end();                                                          \
    }
REGISTER(MPI_Register_datarep, MPI_Datarep_conversion_function)
REGISTER(MPI_Register_datarep_c, MPI_Datarep_conversion_function_c)

typedef struct {
    void *state;
    void (*drop)(void *);
} callback_state;

static int table_op_create(void (*callback)(void *, void *, MPI_Count, MPI_Datatype, void *),
    callback_state state, MPI_Count most, int commute, MPI_Op *op)
{
    line("table op_create");
    show_integer("most", most);
    show_integer("commute", commute);
    if (CODE == MPI_SUCCESS) {
        callback(block + 64, block + 96, most > 1LL << 31 ? 1LL << 33 : 5, handle_result(1, 0),
            state.state);
        *op = handle_result(0, 0);
    }
    state.drop(state.state);
    return end();
}

static int table_create_errhandler(int kind, void (*callback)(uintptr_t, int, void *),
    callback_state state, MPI_Errhandler *errhandler)
{
    line("table create_errhandler");
    show_integer("kind", kind);
    if (CODE == MPI_SUCCESS) {
        callback((uintptr_t) handle_result(1, 0), 17, state.state);
        *errhandler = handle_result(0, 0);
    }
    state.drop(state.state);
    return end();
}

/* Copies an attribute that a program in C has set, and deletes it and the copy. */
static int table_create_keyval(int kind, int (*copy)(uintptr_t, int, void *, void *, void *,
    int *), int (*delete)(uintptr_t, int, void *, void *), callback_state state, int *keyval)
{
    line("table create_keyval");
    show_integer("kind", kind);
    if (CODE == MPI_SUCCESS) {
        uintptr_t object = (uintptr_t) handle_result(1, 0);
        void *copied = NULL, *value = (void *) 123456;
        int wanted = -1;
        returned(copy(object, 19, state.state, value, &copied, &wanted));
        show_integer("flag", wanted);
        if (copied != NULL)
            show_integer("value", *(long long *) copied);
        returned(delete(object, 19, copied == NULL ? value : copied, state.state));
        *keyval = result(0, 0);
    }
    state.drop(state.state);
    return end();
}

static int table_unsupported(const char *name)
{
    line("table unsupported");
    show_text("name", name);
    return end();
}

static int table_out_of_memory(const char *name, size_t bytes)
{
    line("table out_of_memory");
    show_text("name", name);
    show_integer("bytes", bytes);
    return end();
}

static void table_limit_bsend_overhead(int bytes)
{
    line("table limit_bsend_overhead");
    show_integer("bytes", bytes);
    end();
}

const struct {
    unsigned layout;
    void *op_create, *create_errhandler, *create_keyval, *unsupported, *out_of_memory,
        *limit_bsend_overhead;
} mica_front_end = {
    1, table_op_create, table_create_errhandler, table_create_keyval, table_unsupported,
    table_out_of_memory, table_limit_bsend_overhead,
};
