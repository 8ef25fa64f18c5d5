/* The ABI's questions: version, sizes, Fortran's types and logicals, which are known from the start
 * and can therefore not be set. "strict": of logicals of any size. */
#include "test.h"

static void number(MPI_Info info, const char *key, size_t expected)
{
    char value[32] = "";
    int room = sizeof value, found = 0;
    MPI_Info_get_string(info, key, &room, value, &found);
    CHECK(found, "no key %s", key);
    if (found)
        CHECK(strtoul(value, NULL, 10) == expected, "%s is %s, expected %zu", key, value, expected);
}

int main(int argc, char **argv)
{
    int strict = argc > 1 && !strcmp(argv[1], "strict"), major = -1, minor = -1;
    MPI_Info info;
    MPI_Abi_get_version(&major, &minor); /* allowed before MPI_Init */
    CHECK_INT(major, MPI_ABI_VERSION, "ABI version");
    CHECK_INT(minor, MPI_ABI_SUBVERSION, "ABI subversion");
    test_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Abi_get_info(&info);
    number(info, "mpi_aint_size", sizeof(MPI_Aint));
    number(info, "mpi_count_size", sizeof(MPI_Count));
    number(info, "mpi_offset_size", sizeof(MPI_Offset));
    MPI_Info_free(&info);

    MPI_Abi_get_fortran_info(&info);
    CHECK(info != MPI_INFO_NULL, "nothing known of Fortran");
    number(info, "mpi_integer_size", 4);
    number(info, "mpi_logical_size", 4);
    number(info, "mpi_real_size", 4);
    number(info, "mpi_double_precision_size", 8);
    CHECK_CLASS(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI, "set what is known");
    MPI_Info_free(&info);

    for (int size = strict ? 1 : 4; size <= (strict ? 16 : 4); size *= 2) {
        unsigned char yes[17], no[17];
        int is_set = -1;
        memset(yes, 0xaa, sizeof yes);
        memset(no, 0xaa, sizeof no);
        MPI_Abi_get_fortran_booleans(size, yes, no, &is_set);
        CHECK_INT(is_set, 1, "is_set");
        CHECK(yes[size] == 0xaa && no[size] == 0xaa, "more than %d bytes written", size);
        CHECK_INT(test_all(no, (size_t)size, 0), size, "zero bytes of false");
        CHECK(test_all(yes, (size_t)size, 0) < (size_t)size, "true is zero");
        CHECK_CLASS(MPI_Abi_set_fortran_booleans(size, yes, no), MPI_ERR_ABI, "set what is known");
    }
    /* what a reduction makes of logicals is one of the two */
    int yes = -1, no = -1, is_set = 0, mine = -1, all = 5;
    MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set);
    mine = test_rank == 0 ? yes : no;
    MPI_Allreduce(&mine, &all, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD);
    CHECK_INT(all, yes, "MPI_LOR of logicals");
    MPI_Allreduce(&mine, &all, 1, MPI_LOGICAL, MPI_LXOR, MPI_COMM_WORLD);
    CHECK_INT(all, yes, "MPI_LXOR of one true logical");
    MPI_Allreduce(&mine, &all, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD);
    CHECK_INT(all, test_size == 1 ? yes : no, "MPI_LAND of logicals");
    if (strict)
        CHECK_CLASS(MPI_Abi_get_fortran_booleans(3, &yes, &no, &is_set), MPI_ERR_ARG, "a LOGICAL of 3 bytes");
    return test_finish();
}
