/* MPI_Intercomm_create_from_groups: without a communicator, in the world model and in a session;
 * leaders in any place, several at once, empty groups, errors to the handler given. */
#include "test.h"

static int strict; /* also what MPI leaves open, and Mica promises */

static void works(MPI_Comm inter, int first, int local, int other, int remote)
{
    int size = -1, rank = -1, rsize = -1, sum = 0, expected = 0, flag = 0;
    MPI_Comm_test_inter(inter, &flag);
    MPI_Comm_size(inter, &size);
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &rsize);
    CHECK(flag, "not an intercommunicator");
    CHECK_INT(size, local, "local size");
    CHECK_INT(rsize, remote, "remote size");
    CHECK_INT(rank, test_rank - first, "rank");
    for (int i = 0; i < remote; i++)
        expected += other + i;
    MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK_INT(sum, expected, "sum of the other group's ranks in the world");
}

static MPI_Group range(MPI_Group all, int first, int count)
{
    MPI_Group part;
    int triplet[1][3] = {{first, first + count - 1, 1}};
    MPI_Group_range_incl(all, 1, triplet, &part);
    return part;
}

static void halves(MPI_Group all, int bound)
{
    int high = test_rank >= bound, p = test_size, flag;
    int first = high ? bound : 0, local = high ? p - bound : bound;
    int other = high ? 0 : bound, remote = high ? bound : p - bound;
    MPI_Group mine = range(all, first, local), theirs = range(all, other, remote);
    MPI_Comm inter, second, merged;
    MPI_Errhandler handler;
    MPI_Info info, used;
    char value[8] = "";
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "a", info, MPI_ERRORS_RETURN, &inter);
    works(inter, first, local, other, remote);
    MPI_Comm_get_errhandler(inter, &handler);
    CHECK(handler == MPI_ERRORS_RETURN, "the error handler");
    MPI_Errhandler_free(&handler);
    MPI_Comm_get_info(inter, &used);
    MPI_Info_get(used, "mpi_assert_no_any_tag", 7, value, &flag);
    if (strict) /* a library may ignore hints; Mica keeps them */
        CHECK(flag && !strcmp(value, "true"), "the hint is '%s'", value);
    MPI_Info_free(&used);
    MPI_Info_free(&info);

    /* the last ones lead; the others need not name the other group, only that there is one */
    int leads = test_rank == first + local - 1;
    MPI_Intercomm_create_from_groups(mine, local - 1, leads ? theirs : mine, leads ? remote - 1 : -9,
                                     "a", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &second);
    works(second, first, local, other, remote);
    int result = -1, rank = -1;
    MPI_Comm_compare(inter, second, &result);
    CHECK_INT(result, MPI_CONGRUENT, "two of the same groups");
    MPI_Comm_free(&inter);
    MPI_Intercomm_merge(second, high, &merged);
    MPI_Comm_rank(merged, &rank);
    CHECK_INT(rank, test_rank, "rank after merging");
    MPI_Comm_free(&merged);
    MPI_Comm_free(&second);

    MPI_Intercomm_create_from_groups(mine, 0, MPI_GROUP_EMPTY, 0, "b", MPI_INFO_NULL,
                                     MPI_ERRORS_RETURN, &inter);
    CHECK(inter == MPI_COMM_NULL, "an empty remote group");
    MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, theirs, 0, "b", MPI_INFO_NULL,
                                     MPI_ERRORS_RETURN, &inter);
    CHECK(inter == MPI_COMM_NULL, "an empty local group");
    MPI_Group_free(&mine);
    MPI_Group_free(&theirs);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Group world, all;
    MPI_Session session;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int bound = 1; bound < test_size; bound++)
        halves(world, bound);

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    halves(all, (test_size + 1) / 2);
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);

    /* every pair of processes, string tags that tell them apart */
    MPI_Group one = range(world, test_rank, 1);
    for (int other = 0; other < test_size; other++) {
        if (other == test_rank)
            continue;
        MPI_Group them = range(world, other, 1);
        MPI_Comm inter;
        char tag[32];
        snprintf(tag, sizeof tag, "pair %d %d", other < test_rank ? other : test_rank,
                 other < test_rank ? test_rank : other);
        MPI_Intercomm_create_from_groups(one, 0, them, 0, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                         &inter);
        works(inter, test_rank, 1, other, 1);
        MPI_Comm_free(&inter);
        MPI_Group_free(&them);
    }

    if (strict) {
        MPI_Comm inter;
        int rank = (test_rank + 1) % test_size;
        MPI_Group them = range(world, rank, 1);
#define BAD(cls, ...) CHECK_CLASS(MPI_Intercomm_create_from_groups(__VA_ARGS__), cls, #__VA_ARGS__)
        BAD(MPI_ERR_GROUP, MPI_GROUP_NULL, 0, them, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        BAD(MPI_ERR_GROUP, one, 0, MPI_GROUP_NULL, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        BAD(MPI_ERR_GROUP, them, 0, one, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        BAD(MPI_ERR_RANK, one, 1, them, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        BAD(MPI_ERR_RANK, one, 0, them, 1, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        BAD(MPI_ERR_RANK, one, 0, one, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        /* the leader's failure reaches its group */
        BAD(MPI_ERR_RANK, world, 0, them, 5, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        MPI_Group_free(&them);
    }
    MPI_Group_free(&one);
    MPI_Group_free(&world);
    return test_finish();
}
