/* Null and freed communicators, bad groups, keys, names and handles: class and message, and the
 * error goes to MPI_COMM_SELF's or the world's handler, where MPI says so. */
#include "test.h"

#define BAD(call, cls) CHECK_CLASS(call, cls, #call)
#define BAD2(call, one, other) CHECK_EITHER(call, one, other, #call)

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    /* erroneous programs that MPI lets a library accept, and Mica promises to refuse */
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int n = -1, x = 0, flag, key = MPI_KEYVAL_INVALID;
    MPI_Comm c = MPI_COMM_NULL, d;
    MPI_Group g, w;
    MPI_Status st;

    BAD(MPI_Comm_size(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    BAD(MPI_Comm_rank(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    BAD(MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    BAD(MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &st), MPI_ERR_COMM);
    BAD(MPI_Comm_dup(MPI_COMM_NULL, &d), MPI_ERR_COMM);
    BAD(MPI_Comm_split(MPI_COMM_NULL, 0, 0, &d), MPI_ERR_COMM);
    BAD(MPI_Comm_free(&c), MPI_ERR_COMM);
    c = MPI_COMM_WORLD;
    BAD(MPI_Comm_free(&c), MPI_ERR_COMM); /* predefined */

    if (strict) { /* stale handles */
        MPI_Comm_dup(MPI_COMM_WORLD, &c);
        MPI_Comm stale = c;
        MPI_Comm_free(&c);
        BAD(MPI_Comm_size(stale, &n), MPI_ERR_COMM);
        BAD(MPI_Send(&x, 1, MPI_INT, 0, 0, stale), MPI_ERR_COMM);
        BAD(MPI_Barrier(stale), MPI_ERR_COMM);
        BAD(MPI_Comm_free(&stale), MPI_ERR_COMM);
        MPI_Datatype t, old;
        MPI_Type_contiguous(2, MPI_INT, &t);
        MPI_Type_commit(&t);
        old = t;
        MPI_Type_free(&t);
        BAD(MPI_Send(&x, 1, old, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    }

    MPI_Comm_group(MPI_COMM_WORLD, &w);
    int bad[2] = {0, test_size}, twice[2] = {0, 0}, zero_stride[1][3] = {{0, 1, 0}};
    BAD(MPI_Group_incl(w, 2, bad, &g), MPI_ERR_RANK);
    BAD(MPI_Group_excl(w, 2, bad, &g), MPI_ERR_RANK);
    if (strict)
        BAD(MPI_Group_incl(w, 2, twice, &g), MPI_ERR_RANK);
    BAD(MPI_Group_range_incl(w, 1, zero_stride, &g), MPI_ERR_ARG);
    BAD(MPI_Group_size(MPI_GROUP_NULL, &n), MPI_ERR_GROUP);
    BAD(MPI_Group_union(w, MPI_GROUP_NULL, &g), MPI_ERR_GROUP);
    BAD(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &c), MPI_ERR_GROUP);
    MPI_Group_free(&w);

    if (strict) /* negative color */
        BAD(MPI_Comm_split(MPI_COMM_WORLD, -3, 0, &d), MPI_ERR_ARG);
    BAD(MPI_Comm_split_type(MPI_COMM_WORLD, 987654, 0, MPI_INFO_NULL, &d), MPI_ERR_ARG);
    BAD(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL), MPI_ERR_KEYVAL);
    BAD(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &x, &flag), MPI_ERR_KEYVAL);
    BAD(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
    BAD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);

    MPI_Info info;
    BAD2(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO, MPI_ERR_ARG);
    MPI_Info_create(&info);
    BAD(MPI_Info_delete(info, "no such key"), MPI_ERR_INFO_NOKEY);
    char key_too_long[MPI_MAX_INFO_KEY + 8];
    memset(key_too_long, 'k', sizeof key_too_long);
    key_too_long[sizeof key_too_long - 1] = 0;
    BAD(MPI_Info_set(info, key_too_long, "v"), MPI_ERR_INFO_KEY);
    BAD(MPI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY);
    MPI_Info_free(&info);
    int s = 0;
    MPI_Allreduce(&test_rank, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_INT(s, test_size * (test_size - 1) / 2, "sum after all these errors");
    return test_finish();
}
