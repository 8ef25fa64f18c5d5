/* MPI_T control variables and enumerations: names, strings, reading, writing before and after
 * MPI_Init, and every error. */
#include "test.h"

static int start(void)
{
    int provided = -1, n = -1;
    int before = MPI_T_cvar_get_num(&n);
    int none = MPI_T_finalize();
    int first = MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
    int second = MPI_T_init_thread(MPI_THREAD_SINGLE, NULL);
    return before == MPI_T_ERR_NOT_INITIALIZED && none == MPI_T_ERR_NOT_INITIALIZED &&
           first == MPI_SUCCESS && second == MPI_SUCCESS && provided == MPI_THREAD_MULTIPLE &&
           MPI_T_init_thread(-5, &provided) == MPI_T_ERR_INVALID;
}

/* Sets a number before MPI_Init, which takes it. */
static int write_before(const char *name, unsigned long long value)
{
    int index = -1, count = -1;
    unsigned long long now = 0;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index(name, &index) || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count))
        return 0;
    return count == 1 && MPI_T_cvar_write(handle, &value) == MPI_SUCCESS &&
           MPI_T_cvar_read(handle, &now) == MPI_SUCCESS && now == value &&
           MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL;
}

static void check_enum(MPI_T_enum e, int value)
{
    char name[64];
    int num = -1, len = sizeof name, item = -1;
    CHECK_INT(MPI_T_enum_get_info(e, &num, name, &len), MPI_SUCCESS, "enum_get_info");
    CHECK(num > 1 && len == (int)strlen(name) + 1, "%d items, length %d of %s", num, len, name);
    CHECK(value >= 0 && value < num, "value %d of %d", value, num);
    for (int i = 0; i < num; i++) {
        len = sizeof name;
        CHECK_INT(MPI_T_enum_get_item(e, i, &item, name, &len), MPI_SUCCESS, "enum_get_item");
        CHECK(item == i && len > 1, "item %d is %d, %s", i, item, name);
    }
    CHECK_INT(MPI_T_enum_get_item(e, num, &item, name, &len), MPI_T_ERR_INVALID_INDEX, "last item");
    CHECK_INT(MPI_T_enum_get_item(e, -1, &item, name, &len), MPI_T_ERR_INVALID_INDEX, "item -1");
}

static void check_variable(int i)
{
    char name[64], desc[1024], cut[5];
    int name_len = sizeof name, desc_len = sizeof desc, verbosity = 0, bind = 0, scope = 0;
    int index = -1, count = -1, len = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum e = MPI_T_ENUM_NULL;
    MPI_T_cvar_handle handle;
    CHECK_INT(MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &e, desc, &desc_len, &bind,
                                  &scope),
              MPI_SUCCESS, "cvar_get_info");
    CHECK(name_len == (int)strlen(name) + 1 && desc_len == (int)strlen(desc) + 1,
          "lengths %d and %d of %s", name_len, desc_len, name);
    CHECK_INT(MPI_T_cvar_get_index(name, &index), MPI_SUCCESS, name);
    CHECK_INT(index, i, name);
    /* Strings: only the length, cut, and nothing at all. */
    MPI_T_cvar_get_info(i, NULL, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    CHECK_INT(len, name_len, "length by NULL");
    len = sizeof cut;
    MPI_T_cvar_get_info(i, cut, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    CHECK(strncmp(cut, name, 4) == 0 && cut[4] == 0 && len == name_len, "cut %s, %d", cut, len);
    len = 0;
    MPI_T_cvar_get_info(i, cut, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    CHECK_INT(len, name_len, "length by 0");
    CHECK_INT(MPI_T_cvar_get_info(i, cut, NULL, NULL, NULL, NULL, desc, NULL, NULL, NULL),
              MPI_SUCCESS, "no lengths");
    CHECK_INT(bind, MPI_T_BIND_NO_OBJECT, "bind");
    CHECK(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ, "scope %d", scope);

    CHECK_INT(MPI_T_cvar_handle_alloc(i, NULL, &handle, &count), MPI_SUCCESS, "handle_alloc");
    int written;
    if (type == MPI_INT) {
        int value = -1;
        CHECK_INT(MPI_T_cvar_read(handle, &value), MPI_SUCCESS, name);
        CHECK_INT(count, 1, name);
        check_enum(e, value);
        written = MPI_T_cvar_write(handle, &value);
    } else if (type == MPI_UNSIGNED_LONG_LONG) {
        unsigned long long value = 0;
        CHECK_INT(MPI_T_cvar_read(handle, &value), MPI_SUCCESS, name);
        CHECK(count == 1 && e == MPI_T_ENUM_NULL, "%s: count %d", name, count);
        written = MPI_T_cvar_write(handle, &value);
    } else {
        CHECK(type == MPI_CHAR && count > 1, "%s: type or count %d", name, count);
        char *value = malloc((size_t)count);
        CHECK_INT(MPI_T_cvar_read(handle, value), MPI_SUCCESS, name);
        CHECK(strlen(value) < (size_t)count, "%s: %s", name, value);
        written = MPI_T_cvar_write(handle, value);
        free(value);
    }
    CHECK_INT(written,
              scope == MPI_T_SCOPE_READONLY ? MPI_T_ERR_CVAR_SET_NEVER : MPI_T_ERR_CVAR_SET_NOT_NOW,
              name);
    CHECK_INT(MPI_T_cvar_read(handle, NULL), MPI_T_ERR_INVALID, "read to NULL");
    CHECK_INT(MPI_T_cvar_write(handle, NULL), MPI_T_ERR_INVALID, "write from NULL");
    CHECK_INT(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS, "handle_free");
    CHECK_INT(MPI_T_cvar_handle_free(&handle), MPI_T_ERR_INVALID_HANDLE, "free null");
}

int main(int argc, char **argv)
{
    int before = start() && write_before("mica_skew_period", 23);
    test_init(&argc, &argv);
    CHECK(before, "before MPI_Init: %d", before);
    int num = -1, index = -1;
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    CHECK_INT(MPI_T_cvar_get_num(&num), MPI_SUCCESS, "cvar_get_num");
    CHECK(num > 40, "%d variables", num);
    for (int i = 0; i < num; i++)
        check_variable(i);
    unsigned long long value = 0;
    MPI_T_cvar_get_index("mica_skew_period", &index);
    MPI_T_cvar_handle_alloc(index, NULL, &handle, NULL);
    MPI_T_cvar_read(handle, &value);
    CHECK_INT(value, 23, "what was written before MPI_Init");
    CHECK_INT(MPI_T_cvar_get_num(NULL), MPI_T_ERR_INVALID, "get_num(NULL)");
    CHECK_INT(MPI_T_cvar_get_index("none", &index), MPI_T_ERR_INVALID_NAME, "no such name");
    CHECK_INT(MPI_T_cvar_get_index(NULL, &index), MPI_T_ERR_INVALID, "NULL name");
    CHECK_INT(MPI_T_cvar_get_index("mica_path", NULL), MPI_T_ERR_INVALID, "NULL index");
    static const int bad[] = {-1, 1000000};
    for (int i = 0; i < 2; i++) {
        CHECK_INT(MPI_T_cvar_get_info(i ? num : -1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                      NULL),
                  MPI_T_ERR_INVALID_INDEX, "cvar_get_info");
        CHECK_INT(MPI_T_cvar_handle_alloc(bad[i], NULL, &handle, NULL), MPI_T_ERR_INVALID_INDEX,
                  "handle_alloc");
    }
    CHECK_INT(MPI_T_cvar_handle_alloc(0, NULL, NULL, NULL), MPI_T_ERR_INVALID, "NULL handle");
    MPI_T_cvar_handle wild = (MPI_T_cvar_handle)(uintptr_t)0x7fffdeadbeef0;
    CHECK_INT(MPI_T_cvar_read(wild, &value), MPI_T_ERR_INVALID_HANDLE, "wild handle");
    CHECK_INT(MPI_T_cvar_write(MPI_T_CVAR_HANDLE_NULL, &value), MPI_T_ERR_INVALID_HANDLE, "null");
    CHECK_INT(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &num, NULL, NULL), MPI_T_ERR_INVALID_HANDLE,
              "null enumeration");
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS, "first finalize");
    CHECK_INT(MPI_T_cvar_get_num(&num), MPI_SUCCESS, "still initialized");
    int verdict = test_finish(); /* calls MPI_Finalize */
    if (MPI_T_cvar_read(handle, &value) || value != 23 || MPI_T_finalize() ||
        MPI_T_cvar_read(handle, &value) != MPI_T_ERR_NOT_INITIALIZED) {
        fprintf(stderr, "after MPI_Finalize the interface does not work as before\n");
        return 1;
    }
    return verdict;
}
