/* The names of all predefined datatypes (MPI 5.0, 7.8): each has the name of its constant; where
 * the standard lists two constants for a type, both have the name of the one that is not called a
 * synonym. Also the names of other objects. */
#include "test.h"

typedef struct {
    MPI_Datatype type;
    const char *constant, *name;
} Named;

#define NAME(constant) {constant, #constant, #constant}
#define SYNONYM(constant, name) {constant, #constant, name}

enum { TYPES = 73 };

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const Named all[TYPES] = {
        NAME(MPI_DATATYPE_NULL),
        NAME(MPI_AINT),
        NAME(MPI_COUNT),
        NAME(MPI_OFFSET),
        NAME(MPI_PACKED),
        NAME(MPI_SHORT),
        NAME(MPI_INT),
        NAME(MPI_LONG),
        SYNONYM(MPI_LONG_LONG, "MPI_LONG_LONG_INT"),
        NAME(MPI_LONG_LONG_INT),
        NAME(MPI_UNSIGNED_SHORT),
        NAME(MPI_UNSIGNED),
        NAME(MPI_UNSIGNED_LONG),
        NAME(MPI_UNSIGNED_LONG_LONG),
        NAME(MPI_FLOAT),
        SYNONYM(MPI_C_FLOAT_COMPLEX, "MPI_C_COMPLEX"),
        NAME(MPI_C_COMPLEX),
        NAME(MPI_CXX_FLOAT_COMPLEX),
        NAME(MPI_DOUBLE),
        NAME(MPI_C_DOUBLE_COMPLEX),
        NAME(MPI_CXX_DOUBLE_COMPLEX),
        NAME(MPI_LOGICAL),
        NAME(MPI_INTEGER),
        NAME(MPI_REAL),
        NAME(MPI_COMPLEX),
        NAME(MPI_DOUBLE_PRECISION),
        NAME(MPI_DOUBLE_COMPLEX),
        NAME(MPI_CHARACTER),
        NAME(MPI_LONG_DOUBLE),
        NAME(MPI_C_LONG_DOUBLE_COMPLEX),
        NAME(MPI_CXX_LONG_DOUBLE_COMPLEX),
        NAME(MPI_FLOAT_INT),
        NAME(MPI_DOUBLE_INT),
        NAME(MPI_LONG_INT),
        NAME(MPI_2INT),
        NAME(MPI_SHORT_INT),
        NAME(MPI_LONG_DOUBLE_INT),
        NAME(MPI_2REAL),
        NAME(MPI_2DOUBLE_PRECISION),
        NAME(MPI_2INTEGER),
        NAME(MPI_C_BOOL),
        NAME(MPI_CXX_BOOL),
        NAME(MPI_WCHAR),
        NAME(MPI_INT8_T),
        NAME(MPI_UINT8_T),
        NAME(MPI_CHAR),
        NAME(MPI_SIGNED_CHAR),
        NAME(MPI_UNSIGNED_CHAR),
        NAME(MPI_BYTE),
        NAME(MPI_INT16_T),
        NAME(MPI_UINT16_T),
        NAME(MPI_INT32_T),
        NAME(MPI_UINT32_T),
        NAME(MPI_INT64_T),
        NAME(MPI_UINT64_T),
        NAME(MPI_LOGICAL1),
        NAME(MPI_INTEGER1),
        NAME(MPI_LOGICAL2),
        NAME(MPI_INTEGER2),
        NAME(MPI_REAL2),
        NAME(MPI_LOGICAL4),
        NAME(MPI_INTEGER4),
        NAME(MPI_REAL4),
        NAME(MPI_COMPLEX4),
        NAME(MPI_LOGICAL8),
        NAME(MPI_INTEGER8),
        NAME(MPI_REAL8),
        NAME(MPI_COMPLEX8),
        NAME(MPI_LOGICAL16),
        NAME(MPI_INTEGER16),
        NAME(MPI_REAL16),
        NAME(MPI_COMPLEX16),
        NAME(MPI_COMPLEX32),
    };
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    for (int i = 0; i < TYPES; i++) {
        memset(name, '?', sizeof name);
        len = -1;
        CHECK_INT(MPI_Type_get_name(all[i].type, name, &len), MPI_SUCCESS, all[i].constant);
        CHECK(memchr(name, 0, sizeof name) && strcmp(name, all[i].name) == 0, "the name of %s is \"%.60s\", expected \"%s\"",
              all[i].constant, name, all[i].name);
        CHECK_INT(len, (int)strlen(all[i].name), all[i].constant);
    }

    /* The list has every handle of the range that the ABI gives to predefined datatypes. */
    for (uintptr_t handle = 0x200; handle < 0x300; handle++) {
        int listed = 0;
        for (int i = 0; i < TYPES; i++)
            listed |= all[i].type == (MPI_Datatype)handle;
        if (!listed)
            CHECK(MPI_Type_get_name((MPI_Datatype)handle, name, &len) != MPI_SUCCESS, "handle %#lx has the name \"%s\"",
                  (unsigned long)handle, name);
    }

    MPI_Comm_get_name(MPI_COMM_WORLD, name, &len);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0, "MPI_COMM_WORLD is \"%s\"", name);
    MPI_Comm_get_name(MPI_COMM_SELF, name, &len);
    CHECK(strcmp(name, "MPI_COMM_SELF") == 0, "MPI_COMM_SELF is \"%s\"", name);
    MPI_Comm_get_name(MPI_COMM_NULL, name, &len);
    CHECK(strcmp(name, "MPI_COMM_NULL") == 0, "MPI_COMM_NULL is \"%s\"", name);

    /* A name that the program sets replaces a predefined one; a duplicate has none. */
    MPI_Datatype copy;
    MPI_Type_dup(MPI_INT, &copy);
    MPI_Type_get_name(copy, name, &len);
    CHECK_INT(len, 0, "the length of a duplicate's name");
    MPI_Type_free(&copy);
    return test_finish();
}
