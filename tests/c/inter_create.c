/* Intercommunicators as objects: create, groups and sizes, compare, duplicate, split, create from
 * a group, merge; point to point between the groups, beside traffic on the peer communicator with
 * the same tag. */
#include "test.h"

/* The world cut in two: by a bound, or by parity. Ranks of the sides in the world, in order. */
typedef struct {
    int color, local, remote;
    int mine[256], theirs[256];
    MPI_Comm intra;
} Sides;

static Sides cut(int (*color_of)(int, int), int arg)
{
    Sides s = {color_of(test_rank, arg), 0, 0, {0}, {0}, MPI_COMM_NULL};
    for (int r = 0; r < test_size; r++)
        if (color_of(r, arg) == s.color)
            s.mine[s.local++] = r;
        else
            s.theirs[s.remote++] = r;
    MPI_Comm_split(MPI_COMM_WORLD, s.color, 0, &s.intra);
    return s;
}

static int below(int rank, int bound)
{
    return rank >= bound;
}

static int parity(int rank, int flip)
{
    return (rank + flip) % 2;
}

static int index_of(const int *list, int n, int value)
{
    for (int i = 0; i < n; i++)
        if (list[i] == value)
            return i;
    return -1;
}

/* Every process exchanges with every process of the other side, which has these world ranks. */
static void talk(MPI_Comm inter, const int *theirs, int remote, const char *what)
{
    int got[256], flag = -1;
    MPI_Request requests[512];
    MPI_Status statuses[512];
    for (int i = 0; i < remote; i++) {
        MPI_Irecv(&got[i], 1, MPI_INT, i, 5, inter, &requests[i]);
        MPI_Isend(&test_rank, 1, MPI_INT, i, 5, inter, &requests[remote + i]);
    }
    MPI_Waitall(2 * remote, requests, statuses);
    for (int i = 0; i < remote; i++) {
        CHECK(got[i] == theirs[i], "%s: remote rank %d is %d of the world, expected %d", what, i,
              got[i], theirs[i]);
        CHECK_INT(statuses[i].MPI_SOURCE, i, "source of a receive");
    }
    /* wildcards and probes: the source is the rank in the remote group */
    for (int i = 0; i < remote; i++)
        MPI_Send(&test_rank, 1, MPI_INT, i, 6, inter);
    for (int i = 0; i < remote; i++) {
        int value = -1;
        MPI_Status probed, status;
        MPI_Probe(MPI_ANY_SOURCE, 6, inter, &probed);
        CHECK(probed.MPI_SOURCE >= 0 && probed.MPI_SOURCE < remote, "%s: probed source %d", what,
              probed.MPI_SOURCE);
        MPI_Recv(&value, 1, MPI_INT, probed.MPI_SOURCE, MPI_ANY_TAG, inter, &status);
        CHECK_INT(status.MPI_SOURCE, probed.MPI_SOURCE, "source after a probe");
        CHECK_INT(value, theirs[status.MPI_SOURCE], "value after a probe");
    }
    /* no rank is at the next exchange yet, which begins with the other tag */
    MPI_Iprobe(MPI_ANY_SOURCE, 6, inter, &flag, MPI_STATUS_IGNORE);
    CHECK_INT(flag, 0, "a message is left");
    MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 6, inter);
}

static void shape(MPI_Comm inter, const int *mine, int local, const int *theirs, int remote,
                  const char *what)
{
    int flag = 0, size = -1, rank = -1, rsize = -1, result = -1;
    MPI_Comm_test_inter(inter, &flag);
    MPI_Comm_size(inter, &size);
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &rsize);
    CHECK(flag, "%s: not an intercommunicator", what);
    CHECK_INT(size, local, what);
    CHECK_INT(rsize, remote, what);
    CHECK_INT(rank, index_of(mine, local, test_rank), what);

    MPI_Group world, group, expected;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(inter, &group);
    MPI_Group_incl(world, local, mine, &expected);
    MPI_Group_compare(group, expected, &result);
    CHECK_INT(result, MPI_IDENT, "local group");
    MPI_Group_free(&group);
    MPI_Group_free(&expected);
    MPI_Comm_remote_group(inter, &group);
    MPI_Group_incl(world, remote, theirs, &expected);
    MPI_Group_compare(group, expected, &result);
    CHECK_INT(result, MPI_IDENT, "remote group");
    MPI_Group_free(&group);
    MPI_Group_free(&expected);
    MPI_Group_free(&world);
    talk(inter, theirs, remote, what);
}

static void merge(const Sides *s, MPI_Comm inter)
{
    for (int way = 0; way < 4; way++) {
        /* 0: all low; 1: color 0 high; 2: color 1 high; 3: all high */
        int high = s->color == 0 ? way & 1 : way >> 1, size = -1, rank = -1, flag = 1, sum = -1;
        MPI_Comm merged;
        MPI_Intercomm_merge(inter, high ? 7 : 0, &merged);
        MPI_Comm_test_inter(merged, &flag);
        MPI_Comm_size(merged, &size);
        MPI_Comm_rank(merged, &rank);
        CHECK_INT(flag, 0, "a merged communicator is an intracommunicator");
        CHECK_INT(size, s->local + s->remote, "size of the merged communicator");
        int mine = index_of(s->mine, s->local, test_rank);
        if (way == 1 || way == 2)
            CHECK_INT(rank, mine + (high ? s->remote : 0), "rank in the merged communicator");
        else
            CHECK(rank == mine || rank == mine + s->remote, "rank %d in the merged communicator",
                  rank);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
        CHECK_INT(sum, size * (size - 1) / 2, "ranks of the merged communicator");
        MPI_Comm_free(&merged);
    }
}

static int copies;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void duplicate(const Sides *s, MPI_Comm inter)
{
    MPI_Comm dups[3], again[70];
    MPI_Request requests[70];
    int keyval, result = -1, flag = 0, value = 0, before = copies;
    void *found = NULL;
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(inter, keyval, &value);
    MPI_Comm_dup(inter, &dups[0]);
    MPI_Comm_dup_with_info(inter, MPI_INFO_NULL, &dups[1]);
    MPI_Comm_idup(inter, &dups[2], &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK_INT(copies - before, 3, "calls of the copy function");
    for (int i = 0; i < 3; i++) {
        MPI_Comm_compare(inter, dups[i], &result);
        CHECK_INT(result, MPI_CONGRUENT, "a duplicate");
        MPI_Comm_get_attr(dups[i], keyval, &found, &flag);
        CHECK(flag && found == &value, "the attribute of a duplicate");
    }
    MPI_Comm_delete_attr(inter, keyval);
    /* the same message on four communicators, received the other way round */
    int me = 0, got = -1;
    MPI_Comm all[4] = {inter, dups[0], dups[1], dups[2]};
    MPI_Comm_rank(inter, &me);
    if (me < s->remote) {
        for (int i = 0; i < 4; i++) {
            int message = 10 * test_rank + i;
            MPI_Send(&message, 1, MPI_INT, me, 1, all[i]);
        }
        for (int i = 3; i >= 0; i--) {
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, all[i], MPI_STATUS_IGNORE);
            CHECK_INT(got, 10 * s->theirs[me] + i, "a message on a duplicate");
        }
    }
    for (int i = 0; i < 3; i++)
        shape(dups[i], s->mine, s->local, s->theirs, s->remote, "duplicate");
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&dups[i]);
    /* more duplicates than come with one exchange */
    for (int i = 0; i < 70; i++)
        MPI_Comm_idup(inter, &again[i], &requests[i]);
    MPI_Waitall(70, requests, MPI_STATUSES_IGNORE);
    for (int i = 69; i >= 0; i -= 23)
        talk(again[i], s->theirs, s->remote, "one of many duplicates");
    for (int i = 0; i < 70; i++)
        MPI_Comm_free(&again[i]);
    MPI_Comm_free_keyval(&keyval);
}

static void split(const Sides *s, MPI_Comm inter)
{
    int me = -1, mine[256], theirs[256];
    MPI_Comm part;
    MPI_Comm_rank(inter, &me);
    /* all, in reverse order */
    MPI_Comm_split(inter, 3, -me, &part);
    for (int i = 0; i < s->local; i++)
        mine[i] = s->mine[s->local - 1 - i];
    for (int i = 0; i < s->remote; i++)
        theirs[i] = s->theirs[s->remote - 1 - i];
    shape(part, mine, s->local, theirs, s->remote, "split in reverse order");
    int result = -1;
    MPI_Comm_compare(part, inter, &result);
    CHECK_INT(result, s->local > 1 || s->remote > 1 ? MPI_SIMILAR : MPI_CONGRUENT, "reversed");
    MPI_Comm_free(&part);
    /* pairs; ranks that the other side does not have stay alone */
    MPI_Comm_split(inter, me, 0, &part);
    if (me < s->remote) {
        shape(part, &s->mine[me], 1, &s->theirs[me], 1, "split in pairs");
        MPI_Comm_free(&part);
    } else {
        CHECK(part == MPI_COMM_NULL, "a color of one side only");
    }
    /* a color for each side: no rank gets one */
    MPI_Comm_split(inter, s->color, 0, &part);
    CHECK(part == MPI_COMM_NULL, "colors of one side only");
    MPI_Comm_split(inter, MPI_UNDEFINED, 0, &part);
    CHECK(part == MPI_COMM_NULL, "MPI_UNDEFINED everywhere");
    /* only the first of color 0, against all of color 1 */
    MPI_Comm_split(inter, s->color == 0 && me > 0 ? MPI_UNDEFINED : 1, 0, &part);
    if (s->color == 0 && me > 0) {
        CHECK(part == MPI_COMM_NULL, "MPI_UNDEFINED");
    } else {
        shape(part, s->mine, s->color == 0 ? 1 : s->local, s->theirs,
              s->color == 0 ? s->remote : 1, "split of one against all");
        MPI_Comm_free(&part);
    }
}

static void create(const Sides *s, MPI_Comm inter)
{
    int ranks[256], mine[256], theirs[256], n = 0, m = 0, me = -1;
    MPI_Group local, group;
    MPI_Comm part;
    MPI_Comm_rank(inter, &me);
    MPI_Comm_group(inter, &local);
    /* the ranks of even number, backwards */
    for (int r = s->local - 1; r >= 0; r--)
        if (r % 2 == 0) {
            mine[n] = s->mine[r];
            ranks[n++] = r;
        }
    for (int r = s->remote - 1; r >= 0; r--)
        if (r % 2 == 0)
            theirs[m++] = s->theirs[r];
    MPI_Group_incl(local, n, ranks, &group);
    MPI_Comm_create(inter, group, &part);
    if (me % 2 == 0) {
        shape(part, mine, n, theirs, m, "create");
        MPI_Comm_free(&part);
    } else {
        CHECK(part == MPI_COMM_NULL, "create without this process");
    }
    MPI_Group_free(&group);
    /* one side has no ranks */
    MPI_Comm_create(inter, s->color == 0 ? local : MPI_GROUP_EMPTY, &part);
    CHECK(part == MPI_COMM_NULL, "create with an empty side");
    MPI_Group_free(&local);
}

/* `leader` picks the leaders; `peer` is the communicator on which they meet. */
static void one(Sides s, int last_leads, MPI_Comm peer, int tag)
{
    int mine = last_leads ? s.local - 1 : 0, theirs = last_leads ? s.remote - 1 : 0, me, got = -1;
    MPI_Comm inter;
    MPI_Comm_rank(s.intra, &me);
    /* the program's own messages on the peer communicator, with the same tag, are not disturbed */
    MPI_Request request = MPI_REQUEST_NULL;
    int leads = me == mine;
    if (leads) {
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, tag, peer, &request);
        MPI_Intercomm_create(s.intra, mine, peer, s.theirs[theirs], tag, &inter);
        MPI_Send(&test_rank, 1, MPI_INT, s.theirs[theirs], tag, peer);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_INT(got, s.theirs[theirs], "a message on the peer communicator");
    } else { /* what only the leader needs is not looked at */
        MPI_Intercomm_create(s.intra, mine, MPI_COMM_NULL, -77, tag, &inter);
    }
    shape(inter, s.mine, s.local, s.theirs, s.remote, "intercommunicator");
    int result = -1;
    MPI_Comm_compare(inter, inter, &result);
    CHECK_INT(result, MPI_IDENT, "itself");
    MPI_Comm_compare(inter, s.intra, &result);
    CHECK_INT(result, MPI_UNEQUAL, "against an intracommunicator");
    duplicate(&s, inter);
    split(&s, inter);
    create(&s, inter);
    merge(&s, inter);
    /* its leaders meet on an intercommunicator */
    MPI_Comm second;
    MPI_Intercomm_create(s.intra, 0, inter, 0, 3, &second);
    shape(second, s.mine, s.local, s.theirs, s.remote, "made over an intercommunicator");
    MPI_Comm_compare(inter, second, &result);
    CHECK_INT(result, MPI_CONGRUENT, "two of the same groups");
    MPI_Comm_disconnect(&inter);
    talk(second, s.theirs, s.remote, "after the other one was freed");
    MPI_Comm_free(&second);
    MPI_Comm_free(&s.intra);
}

/* A ring of intercommunicators, each between neighbours, used at once. */
static void ring(void)
{
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    MPI_Comm to_left, to_right;
    if (test_size < 3)
        return;
    /* even ranks begin on their right; in an odd ring the last one begins on its left, too */
    int first_right = test_rank % 2 == 0 && !(test_size % 2 == 1 && test_rank == test_size - 1);
    for (int turn = 0; turn < 2; turn++) {
        int do_right = turn == 0 ? first_right : !first_right;
        if (do_right)
            MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, right, test_rank, &to_right);
        else
            MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, left, left, &to_left);
    }

    MPI_Request requests[4];
    int from_left = -1, from_right = -1;
    MPI_Irecv(&from_left, 1, MPI_INT, 0, MPI_ANY_TAG, to_left, &requests[0]);
    MPI_Irecv(&from_right, 1, MPI_INT, MPI_ANY_SOURCE, 1, to_right, &requests[1]);
    MPI_Isend(&test_rank, 1, MPI_INT, 0, 1, to_left, &requests[2]);
    MPI_Isend(&test_rank, 1, MPI_INT, 0, 1, to_right, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    CHECK_INT(from_left, left, "message from the left");
    CHECK_INT(from_right, right, "message from the right");
    MPI_Comm_free(&to_left);
    MPI_Comm_free(&to_right);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    MPI_Comm peer;
    MPI_Comm_dup(MPI_COMM_WORLD, &peer);
    for (int bound = 1; bound < test_size; bound++)
        one(cut(below, bound), bound % 2, MPI_COMM_WORLD, bound);
    one(cut(parity, 0), 0, peer, 0);
    one(cut(parity, 1), 1, peer, 11);
    ring();
    MPI_Comm_free(&peer);
    return test_finish();
}
