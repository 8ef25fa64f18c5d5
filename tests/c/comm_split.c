/* MPI_Comm_split (undefined color, negative and equal keys), split_type, dup, compare, names, and
 * that a new communicator works. */
#include "test.h"

/* Ranks of `comm` gather the world ranks of all: who is in it, in which order. */
static void members(MPI_Comm comm, int n, const int *want, const char *what)
{
    int size = -1, rank = -1, all[256];
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    CHECK_INT(size, n, what);
    if (size != n)
        return;
    CHECK_INT(want[rank], test_rank, what);
    MPI_Allgather(&test_rank, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int i = 0; i < n; i++)
        CHECK(all[i] == want[i], "%s: rank %d is world rank %d, expected %d", what, i, all[i],
              want[i]);
}

static int compare(MPI_Comm a, MPI_Comm b)
{
    int r = -1;
    MPI_Comm_compare(a, b, &r);
    return r;
}

/* `comm` was split by node with the world rank as key: together the parts are all, ranks ascend,
 * names are the same. */
static void check_node(MPI_Comm comm)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", first[MPI_MAX_PROCESSOR_NAME] = "";
    int size = 0, rank = -1, all[256], length, part, total = 0;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    part = rank == 0 ? size : 0;
    MPI_Allreduce(&part, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_INT(total, test_size, "ranks on all nodes");
    MPI_Allgather(&test_rank, 1, MPI_INT, all, 1, MPI_INT, comm);
    CHECK_INT(all[rank], test_rank, "world rank on the node");
    for (int i = 1; i < size; i++)
        CHECK(all[i - 1] < all[i], "split_type: rank %d is %d, rank %d is %d", i - 1, all[i - 1], i, all[i]);
    MPI_Get_processor_name(name, &length);
    memcpy(first, name, sizeof name);
    MPI_Bcast(first, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 0, comm);
    CHECK(!strcmp(name, first), "the node is called %s and %s", first, name);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int p = test_size, me = test_rank, want[256] = {0}, n = 0;
    MPI_Comm c, d;

    /* even and odd, in reverse order by negative keys */
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &c);
    for (int r = p - 1; r >= 0; r--)
        if (r % 2 == me % 2)
            want[n++] = r;
    members(c, n, want, "split by parity, reversed");
    if (n > 1)
        CHECK_INT(compare(c, MPI_COMM_WORLD), MPI_UNEQUAL, "compare of the half and the world");
    /* split again: all together, keys equal: order of the parent */
    MPI_Comm_split(c, 7, 3, &d);
    members(d, n, want, "split of the split");
    CHECK_INT(compare(c, d), MPI_CONGRUENT, "compare of equal members");
    MPI_Comm_free(&d);
    MPI_Comm_free(&c);
    CHECK(c == MPI_COMM_NULL, "handle after Comm_free is not null");

    /* world reversed: similar */
    MPI_Comm_split(MPI_COMM_WORLD, 0, p - me, &c);
    CHECK_INT(compare(c, MPI_COMM_WORLD), p > 1 ? MPI_SIMILAR : MPI_CONGRUENT, "compare reversed");
    MPI_Comm_free(&c);

    /* undefined color on all but rank 0 */
    MPI_Comm_split(MPI_COMM_WORLD, me ? MPI_UNDEFINED : 0, 0, &c);
    CHECK((c == MPI_COMM_NULL) == (me != 0), "split with undefined color");
    if (me == 0) {
        want[0] = 0;
        members(c, 1, want, "split of one");
        MPI_Comm_free(&c);
    }

    /* every rank alone */
    MPI_Comm_split(MPI_COMM_WORLD, me, 0, &c);
    want[0] = me;
    members(c, 1, want, "split into ones");
    CHECK_INT(compare(c, MPI_COMM_SELF), MPI_CONGRUENT, "compare with MPI_COMM_SELF");
    MPI_Comm_free(&c);

    /* by node: the parts are the whole, each in the order of keys, and have one name */
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &c);
    check_node(c);
    MPI_Comm_free(&c);
    for (int r = 0; r < p; r++)
        want[r] = r;
    MPI_Comm_split_type(MPI_COMM_WORLD, me % 2 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0,
                        MPI_INFO_NULL, &c);
    CHECK((c == MPI_COMM_NULL) == (me % 2 == 1), "split_type with undefined");
    if (c != MPI_COMM_NULL)
        MPI_Comm_free(&c);

    /* dup, compare, names */
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    members(c, p, want, "dup");
    CHECK_INT(compare(MPI_COMM_WORLD, MPI_COMM_WORLD), MPI_IDENT, "compare with itself");
    CHECK_INT(compare(c, MPI_COMM_WORLD), MPI_CONGRUENT, "compare with its dup");
    char name[MPI_MAX_OBJECT_NAME] = "?";
    int len = -1;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &len);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && len == 14, "name of the world is \"%s\"", name);
    MPI_Comm_get_name(MPI_COMM_SELF, name, &len);
    CHECK(strcmp(name, "MPI_COMM_SELF") == 0, "name of self is \"%s\"", name);
    MPI_Comm_get_name(MPI_COMM_NULL, name, &len);
    CHECK(strcmp(name, "MPI_COMM_NULL") == 0, "name of MPI_COMM_NULL is \"%s\"", name);
    MPI_Comm_get_name(c, name, &len);
    CHECK(len == 0 && !*name, "a dup has the name \"%s\"", name);
    MPI_Comm_set_name(c, "workers");
    MPI_Comm_get_name(c, name, &len);
    CHECK(strcmp(name, "workers") == 0 && len == 7, "name is \"%s\"", name);
    int inter = -1;
    MPI_Comm_test_inter(c, &inter);
    CHECK_INT(inter, 0, "test_inter of an intracommunicator");
    MPI_Comm_free(&c);

    /* dup_with_info, idup */
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &c);
    members(c, p, want, "dup_with_info");
    MPI_Info_free(&info);
    MPI_Comm_free(&c);
    return test_finish();
}
