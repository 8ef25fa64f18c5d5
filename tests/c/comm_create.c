/* MPI_Comm_create and MPI_Comm_create_group: subsets, orders, disjoint groups at the same time,
 * overlapping communicators used at once. */
#include "test.h"

static void works(MPI_Comm c, int expect_size, const char *what)
{
    int size = -1, rank = -1, sum = 0, one = 1;
    MPI_Comm_size(c, &size);
    MPI_Comm_rank(c, &rank);
    CHECK_INT(size, expect_size, what);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c);
    CHECK_INT(sum, expect_size, what);
    int to = (rank + 1) % size, from = (rank + size - 1) % size, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, c, MPI_STATUS_IGNORE);
    CHECK_INT(got, from, what);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int p = test_size, me = test_rank, list[256], n = 0;
    MPI_Group world, g;
    MPI_Comm c, halves[2];
    MPI_Comm_group(MPI_COMM_WORLD, &world);

    /* all but rank 0, reversed; collective over the world */
    for (int r = p - 1; r > 0; r--)
        list[n++] = r;
    MPI_Group_incl(world, n, list, &g);
    MPI_Comm_create(MPI_COMM_WORLD, g, &c);
    CHECK((c == MPI_COMM_NULL) == (me == 0), "create: null only on rank 0");
    if (c != MPI_COMM_NULL) {
        int rank = -1;
        MPI_Comm_rank(c, &rank);
        CHECK_INT(rank, p - 1 - me, "rank in the reversed communicator");
        works(c, p - 1, "create of all but rank 0");
        MPI_Comm_free(&c);
    }
    MPI_Group_free(&g);
    MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &c);
    CHECK(c == MPI_COMM_NULL, "create with the empty group");

    /* disjoint groups in one call of Comm_create */
    int range[1][3] = {{me % 2, p - 1, 2}};
    if (range[0][0] <= range[0][1]) {
        MPI_Group_range_incl(world, 1, range, &g);
        int size;
        MPI_Group_size(g, &size);
        MPI_Comm_create(MPI_COMM_WORLD, g, &halves[0]);
        works(halves[0], size, "create of disjoint groups");
        /* create_group: only the members call; the other half does so concurrently, same tag */
        MPI_Comm_create_group(MPI_COMM_WORLD, g, 17, &halves[1]);
        works(halves[1], size, "create_group");
        int cmp = -1;
        MPI_Comm_compare(halves[0], halves[1], &cmp);
        CHECK_INT(cmp, MPI_CONGRUENT, "create against create_group");
        MPI_Comm_free(&halves[0]);
        MPI_Comm_free(&halves[1]);
        MPI_Group_free(&g);
    }

    /* rank 0 makes one pair communicator with every other rank in turn: others take no part */
    MPI_Comm pairs[256];
    for (int r = 1; r < p; r++) {
        if (me != 0 && me != r)
            continue;
        int two[2] = {r, 0};
        MPI_Group_incl(world, 2, two, &g);
        MPI_Comm_create_group(MPI_COMM_WORLD, g, r, &pairs[r]);
        MPI_Group_free(&g);
    }
    for (int r = p - 1; r > 0; r--) /* used in another order than made */
        if (me == 0 || me == r) {
            works(pairs[r], 2, "pair communicator");
            MPI_Comm_free(&pairs[r]);
        }
    MPI_Group_free(&world);
    return test_finish();
}
