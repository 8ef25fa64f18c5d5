/* Waitany, Testany, Waitsome and Testsome over many requests, whose program changes their array between the
 * calls in each way that MPI permits: it posts new receives to the places of those that are complete, moves
 * handles within the array and between two arrays, completes some by other calls, has null, inactive,
 * persistent and collective ones among them. Each message must be received once, in the request that it was
 * sent for, and no call may wait while one of its requests is complete.
 *
 * Argument: rounds (default 30). */
#include "test.h"

enum { MANY = 300, FEW = 9 };
enum { WAITANY, TESTANY, WAITSOME, TESTSOME, CALLS };

static unsigned seed = 1;

static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (unsigned)n);
}

enum { SEND = 1000000, KINDS_COME = 1000001, END = 1000002 };

static MPI_Comm pair;
static int next_tag;

typedef struct {
    int places;
    MPI_Request request[MANY + 1];
    int tag[MANY + 1];
    int *value[MANY + 1];
} Array;

static void post(Array *a, int at)
{
    if (a->value[at] == NULL)
        a->value[at] = malloc(sizeof(int));
    *a->value[at] = -1;
    a->tag[at] = next_tag++;
    MPI_Irecv(a->value[at], 1, MPI_INT, 1, a->tag[at], pair, &a->request[at]);
}

/* Asks rank 1 to send the messages of these tags. */
static void ask(const int *tags, int n)
{
    MPI_Send(tags, n, MPI_INT, 1, SEND, pair);
}

static void check(Array *a, int at, const MPI_Status *status)
{
    CHECK(at >= 0 && at < a->places, "index %d of %d", at, a->places);
    CHECK_INT(status->MPI_TAG, a->tag[at], "tag of a completed receive");
    CHECK_INT(*a->value[at], 7 * a->tag[at], "value of a completed receive");
    CHECK(a->request[at] == MPI_REQUEST_NULL, "a completed request is not null");
}

/* Completes at least one request, and returns the number; `done` gets the places. */
static int complete(Array *a, int call, int *done)
{
    static MPI_Status status[MANY + 1];
    int flag = 0, count = 0;
    switch (call) {
    case WAITANY:
        MPI_Waitany(a->places, a->request, &done[0], &status[0]);
        count = 1;
        break;
    case TESTANY:
        while (!flag)
            MPI_Testany(a->places, a->request, &done[0], &flag, &status[0]);
        count = 1;
        break;
    case WAITSOME: MPI_Waitsome(a->places, a->request, &count, done, status); break;
    case TESTSOME:
        while (count == 0)
            MPI_Testsome(a->places, a->request, &count, done, status);
        break;
    }
    CHECK(count > 0 && count <= a->places, "%d completed", count);
    for (int i = 0; i < count; i++)
        check(a, done[i], &status[i]);
    return count;
}

static void swap(Array *a, int i, Array *b, int j)
{
    MPI_Request request = a->request[i];
    int tag = a->tag[i], *value = a->value[i];
    a->request[i] = b->request[j], a->tag[i] = b->tag[j], a->value[i] = b->value[j];
    b->request[j] = request, b->tag[j] = tag, b->value[j] = value;
}

/* A receive of `b` that was made long ago moves to a place of `a` that is empty; only its message comes. */
static void old_request_moves_in(Array *a, Array *b)
{
    int done[MANY + 1];
    for (int call = 0; call < CALLS; call++) {
        int from = below(b->places), to = below(a->places);
        ask(&a->tag[to], 1);
        complete(a, WAITANY, done);
        CHECK_INT(done[0], to, "the place of the only message");
        swap(a, to, b, from);
        ask(&a->tag[to], 1);
        CHECK_INT(complete(a, call, done), 1, "messages that were sent");
        CHECK_INT(done[0], to, "the place of the request that moved");
        post(a, to);
        post(b, from);
    }
}

static void rounds_of(Array *a, Array *b, int call, int rounds)
{
    int tags[MANY + 1], done[MANY + 1];
    for (int round = 0; round < rounds; round++) {
        Array *in_use = below(4) == 0 ? b : a, *other = in_use == a ? b : a;
        int n = 1 + below(below(3) == 0 ? in_use->places : 4), sent = 0;
        for (int at = below(in_use->places), i = 0; i < n; i++, at = (at + 7) % in_use->places)
            if (in_use->request[at] != MPI_REQUEST_NULL) {
                int again = 0;
                for (int k = 0; k < sent; k++)
                    again |= tags[k] == in_use->tag[at];
                if (!again)
                    tags[sent++] = in_use->tag[at];
            }
        ask(tags, sent);
        while (sent > 0) {
            if (below(5) == 0)
                swap(in_use, below(in_use->places), in_use, below(in_use->places));
            if (below(10) == 0) { /* one of them by another call */
                int at = 0;
                while (in_use->request[at] == MPI_REQUEST_NULL || in_use->tag[at] != tags[sent - 1])
                    if (++at == in_use->places)
                        break;
                if (at < in_use->places) {
                    MPI_Status status;
                    MPI_Wait(&in_use->request[at], &status);
                    check(in_use, at, &status);
                    post(in_use, at);
                    sent--;
                    continue;
                }
            }
            int count = complete(in_use, call, done);
            sent -= count;
            CHECK(sent >= 0, "%d completions too many", -sent);
            for (int i = 0; i < count; i++)
                post(in_use, done[i]);
        }
        if (below(5) == 0)
            swap(in_use, below(in_use->places), other, below(other->places));
    }
}

static void receive_all(Array *a)
{
    int done[MANY + 1], left = 0, flag = -1, index = -2;
    for (int i = 0; i < a->places; i++)
        left += a->request[i] != MPI_REQUEST_NULL;
    ask(a->tag, a->places);
    while (left > 0)
        left -= complete(a, below(CALLS), done);
    MPI_Testany(a->places, a->request, &index, &flag, MPI_STATUS_IGNORE);
    CHECK(flag == 1 && index == MPI_UNDEFINED, "Testany of null requests: flag %d index %d", flag, index);
    MPI_Waitany(a->places, a->request, &index, MPI_STATUS_IGNORE);
    CHECK_INT(index, MPI_UNDEFINED, "Waitany of null requests");
    MPI_Waitsome(a->places, a->request, &index, done, MPI_STATUSES_IGNORE);
    CHECK_INT(index, MPI_UNDEFINED, "Waitsome of null requests");
}

/* Persistent receives, inactive ones among them, synchronous sends and a collective in one array. */
static void of_all_kinds(int call)
{
    enum { KINDS = 120 };
    static MPI_Request request[KINDS];
    static int value[KINDS], done[KINDS], seen[KINDS];
    int base = next_tag, active = 0, token = base, count, flag;
    next_tag += KINDS;
    for (int i = 0; i < KINDS; i++) {
        seen[i] = 0;
        if (i % 3 == 0)
            MPI_Recv_init(&value[i], 1, MPI_INT, 1, base + i, pair, &request[i]);
        else if (i == 100)
            MPI_Ibarrier(pair, &request[i]);
        else if (i % 3 == 1)
            MPI_Issend(&base, 1, MPI_INT, 1, base + i, pair, &request[i]);
        else
            MPI_Irecv(&value[i], 1, MPI_INT, 1, base + i, pair, &request[i]);
        if (i % 6 == 0)
            MPI_Start(&request[i]);
        active += i % 6 != 3;
    }
    MPI_Send(&token, 1, MPI_INT, 1, KINDS_COME, pair);
    for (int again = 0; active > 0;) {
        count = 0;
        if (call == WAITANY || call == TESTANY) {
            flag = call == WAITANY;
            if (call == WAITANY)
                MPI_Waitany(KINDS, request, &done[0], MPI_STATUS_IGNORE);
            else
                MPI_Testany(KINDS, request, &done[0], &flag, MPI_STATUS_IGNORE);
            count = flag;
        } else {
            (call == WAITSOME ? MPI_Waitsome : MPI_Testsome)(KINDS, request, &count, done, MPI_STATUSES_IGNORE);
        }
        for (int i = 0; i < count; i++, active--) {
            CHECK(done[i] >= 0 && done[i] < KINDS && done[i] % 6 != 3, "index %d", done[i]);
            seen[done[i]]++;
            if (done[i] % 6 == 0 && again < 5) { /* a second time, for a message of the same tag */
                again++;
                active++;
                MPI_Start(&request[done[i]]);
                int tag = base + done[i];
                ask(&tag, 1);
            }
        }
        for (int i = 0; i < KINDS && active == 0; i++)
            if (i % 3 == 0)
                CHECK(seen[i] >= (i % 6 == 0), "persistent receive %d", i);
            else
                CHECK_INT(seen[i], 1, "completions of a request");
    }
    for (int i = 2; i < KINDS; i += 3)
        CHECK_INT(value[i], 7 * (base + i), "what a receive received");
    for (int i = 0; i < KINDS; i += 3)
        MPI_Request_free(&request[i]);
}

static void answer(void)
{
    static int tags[4 * MANY];
    MPI_Status status;
    for (;;) {
        int n, base;
        MPI_Probe(0, MPI_ANY_TAG, pair, &status);
        MPI_Get_count(&status, MPI_INT, &n);
        if (status.MPI_TAG == END || status.MPI_TAG == SEND)
            MPI_Recv(tags, n, MPI_INT, 0, status.MPI_TAG, pair, MPI_STATUS_IGNORE);
        if (status.MPI_TAG == END)
            return;
        if (status.MPI_TAG == SEND) {
            for (int i = n - 1; i >= 0; i--) {
                int value = 7 * tags[i];
                MPI_Send(&value, 1, MPI_INT, 0, tags[i], pair);
            }
            continue;
        }
        /* The synchronous sends of of_all_kinds come first. */
        MPI_Recv(&base, 1, MPI_INT, 0, KINDS_COME, pair, MPI_STATUS_IGNORE);
        MPI_Request barrier;
        MPI_Ibarrier(pair, &barrier);
        for (int i = 119; i >= 0; i--) {
            int value = 7 * (base + i);
            if (i != 100 && i % 3 == 1)
                MPI_Recv(&value, 1, MPI_INT, 0, base + i, pair, MPI_STATUS_IGNORE);
            else if (i != 100 && i % 6 != 3)
                MPI_Send(&value, 1, MPI_INT, 0, base + i, pair);
        }
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    static Array a = {.places = MANY}, b = {.places = MANY - 100}, few = {.places = FEW};
    test_init(&argc, &argv);
    test_needs(2);
    int rounds = argc > 1 ? atoi(argv[1]) : 30;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank < 2, 0, &pair);
    if (test_rank == 1) {
        answer();
    } else if (test_rank == 0) {
        for (int i = 0; i < a.places; i++)
            post(&a, i);
        for (int i = 0; i < b.places; i++)
            post(&b, i);
        for (int i = 0; i < few.places; i++)
            post(&few, i);
        for (int call = 0; call < CALLS; call++) {
            rounds_of(&a, &b, call, rounds);
            rounds_of(&a, &few, call, rounds);
            of_all_kinds(call);
        }
        old_request_moves_in(&a, &b);
        receive_all(&few);
        receive_all(&b);
        receive_all(&a);
        MPI_Send(&rounds, 1, MPI_INT, 1, END, pair);
    }
    MPI_Comm_free(&pair);
    return test_finish();
}
