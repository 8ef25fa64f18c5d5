/* Random splits, groups and creations, nested, against a plain list of who should be where. All
 * ranks draw the same random numbers, so each knows all members without talking. argv: rounds,
 * seed. */
#include "test.h"

enum { MOST = 64 };
static uint64_t state;

static int below(int n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state % (uint64_t)n);
}

/* The communicator holds exactly these world ranks, in this order; a message passes around it. */
static void check(MPI_Comm c, const int *members, int n, int round, const char *what)
{
    int rank, size, all[MOST], got = -1;
    MPI_Comm_rank(c, &rank);
    MPI_Comm_size(c, &size);
    CHECK(size == n, "round %d: %s has %d ranks, expected %d", round, what, size, n);
    if (size != n)
        return;
    MPI_Allgather(&test_rank, 1, MPI_INT, all, 1, MPI_INT, c);
    for (int i = 0; i < n; i++)
        CHECK(all[i] == members[i], "round %d: %s: rank %d is %d, expected %d", round, what, i, all[i], members[i]);
    MPI_Sendrecv(&test_rank, 1, MPI_INT, (rank + 1) % n, 3, &got, 1, MPI_INT, (rank + n - 1) % n, 3, c,
                 MPI_STATUS_IGNORE);
    CHECK(got == members[(rank + n - 1) % n], "round %d: %s: got %d from the left", round, what, got);
}

/* Splits `parent`, whose members are given; returns this rank's part and puts its members into
 * `out`. */
static MPI_Comm split(MPI_Comm parent, const int *members, int n, int *out, int *m, int round)
{
    int color[MOST], key[MOST], me = -1, mine;
    MPI_Comm part;
    for (int i = 0; i < n; i++) {
        color[i] = below(4) ? below(3) : MPI_UNDEFINED;
        key[i] = below(5) - 2;
        if (members[i] == test_rank)
            me = i;
    }
    mine = color[me];
    MPI_Comm_split(parent, mine, key[me], &part);
    *m = 0;
    for (int k = -2; k <= 2; k++)
        for (int i = 0; i < n; i++)
            if (mine != MPI_UNDEFINED && color[i] == mine && key[i] == k)
                out[(*m)++] = members[i];
    CHECK((part == MPI_COMM_NULL) == (mine == MPI_UNDEFINED), "round %d: split with color %d", round, mine);
    if (part != MPI_COMM_NULL)
        check(part, out, *m, round, "the split");
    return part;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 100, world[MOST], first[MOST], second[MOST], n, m;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    for (int i = 0; i < test_size; i++)
        world[i] = i;
    for (int round = 0; round < rounds && test_failures == 0; round++) {
        state = (seed * 1000 + (uint64_t)round) * 0x9e3779b97f4a7c15u + 1;
        MPI_Comm a = split(MPI_COMM_WORLD, world, test_size, first, &n, round), b = MPI_COMM_NULL;
        if (a != MPI_COMM_NULL) {
            uint64_t keep = state;
            state += (uint64_t)first[0] * 7919; /* each part draws numbers of its own */
            b = split(a, first, n, second, &m, round);
            state = keep;
        }
        /* A random subset of the world in random order, by group operations. */
        int picked[MOST], count = 0, order[MOST];
        for (int i = 0; i < test_size; i++)
            order[i] = i;
        for (int i = test_size - 1; i > 0; i--) {
            int j = below(i + 1), t = order[i];
            order[i] = order[j], order[j] = t;
        }
        for (int i = 0; i < test_size; i++)
            if (below(3))
                picked[count++] = order[i];
        MPI_Group all, some, rest, both;
        MPI_Comm c, d = MPI_COMM_NULL;
        int in, result;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, count, picked, &some);
        MPI_Group_difference(all, some, &rest);
        MPI_Group_union(some, rest, &both);
        MPI_Group_compare(both, all, &result);
        CHECK(result == MPI_SIMILAR || result == MPI_IDENT, "round %d: a group and the rest are not all", round);
        MPI_Group_rank(some, &in);
        MPI_Comm_create(MPI_COMM_WORLD, some, &c);
        CHECK((c == MPI_COMM_NULL) == (in == MPI_UNDEFINED), "round %d: create for rank %d of the group", round, in);
        if (in != MPI_UNDEFINED) {
            MPI_Comm_create_group(MPI_COMM_WORLD, some, round, &d);
            check(c, picked, count, round, "create");
            check(d, picked, count, round, "create_group");
            MPI_Comm_compare(c, d, &result);
            CHECK(result == MPI_CONGRUENT, "round %d: compare gives %d", round, result);
        }
        MPI_Comm *made[] = {&a, &b, &c, &d};
        for (int i = 0; i < 4; i++)
            if (*made[i] != MPI_COMM_NULL)
                MPI_Comm_free(made[i]);
        MPI_Group_free(&all), MPI_Group_free(&some), MPI_Group_free(&rest), MPI_Group_free(&both);
    }
    return test_finish();
}
