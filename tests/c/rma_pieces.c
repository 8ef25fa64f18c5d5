/* Operations whose target memory lies in several attached pieces of a dynamic window: all bytes
 * that are accessed are attached, so they are correct (MPI 5.0, 12.2.4, 12.6.2). Pieces side by
 * side, with an element across their border, and pieces apart. */
#include "rma.h"

enum { WORDS = 300, PIECES = 5, EACH = WORDS / PIECES };

/* The middle of a number is a border. */
typedef struct {
    unsigned char first[12], second[12];
} Halves;

static int area[WORDS];
static Halves halves;
static int apart[5][8]; /* every other one is attached */

static void show(MPI_Aint at, int to, int from, MPI_Aint *there)
{
    MPI_Sendrecv(&at, 1, MPI_AINT, from, 0, there, 1, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static MPI_Aint address_of(void *p)
{
    MPI_Aint at;
    MPI_Get_address(p, &at);
    return at;
}

/* The whole area in one operation of each kind. */
static void whole(MPI_Win win, int to, int from)
{
    static int out[WORDS], in[WORDS];
    MPI_Aint there;
    show(address_of(area), to, from, &there);
    for (int i = 0; i < WORDS; i++)
        out[i] = 1000 * test_rank + i, area[i] = -1, in[i] = -1;
    MPI_Win_fence(0, win);
    CHECK_INT(MPI_Put(out, WORDS, MPI_INT, to, there, WORDS, MPI_INT, win), MPI_SUCCESS, "MPI_Put");
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; i++)
        CHECK_INT(area[i], 1000 * from + i, "a word that was put");
    MPI_Win_fence(0, win);
    CHECK_INT(MPI_Get(in, WORDS, MPI_INT, to, there, WORDS, MPI_INT, win), MPI_SUCCESS, "MPI_Get");
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; i++)
        CHECK_INT(in[i], 1000 * test_rank + i, "a word that was got");
    MPI_Win_fence(0, win);
    CHECK_INT(MPI_Accumulate(out, WORDS, MPI_INT, to, there, WORDS, MPI_INT, MPI_SUM, win), MPI_SUCCESS, "MPI_Accumulate");
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; i++)
        CHECK_INT(area[i], 2 * (1000 * from + i), "a word that was accumulated");
    MPI_Win_fence(0, win);
    CHECK_INT(MPI_Get_accumulate(out, WORDS, MPI_INT, in, WORDS, MPI_INT, to, there, WORDS, MPI_INT, MPI_SUM, win), MPI_SUCCESS,
              "MPI_Get_accumulate");
    MPI_Win_fence(0, win);
    for (int i = 0; i < WORDS; i++)
        CHECK(in[i] == 2 * (1000 * test_rank + i) && area[i] == 3 * (1000 * from + i), "word %d: %d, %d", i, in[i], area[i]);
    MPI_Win_fence(0, win);
    /* a few words across a border, which would go by processor atomics */
    int few[2] = {5, 6}, old[2] = {0, 0};
    MPI_Aint border = MPI_Aint_add(there, (EACH - 1) * (MPI_Aint)sizeof(int));
    CHECK_INT(MPI_Get_accumulate(few, 2, MPI_INT, old, 2, MPI_INT, to, border, 2, MPI_INT, MPI_REPLACE, win), MPI_SUCCESS,
              "MPI_Get_accumulate of two words");
    MPI_Win_fence(0, win);
    CHECK(area[EACH - 1] == 5 && area[EACH] == 6, "words at the border: %d, %d", area[EACH - 1], area[EACH]);
    CHECK_INT(old[1], 3 * (1000 * test_rank + EACH), "the second previous word");
    MPI_Win_fence(0, win);
}

/* One number, of which each piece has a part. */
static void across(MPI_Win win, int to, int from)
{
    MPI_Aint there;
    double start = 1.5, one = 1, got = 0;
    int64_t zero = 0, next = 77, found = -1;
    void *at = halves.second - 4;
    show(address_of(at), to, from, &there);
    memcpy(at, &start, sizeof start);
    MPI_Win_fence(0, win);
    CHECK_INT(MPI_Fetch_and_op(&one, &got, MPI_DOUBLE, to, there, MPI_SUM, win), MPI_SUCCESS, "MPI_Fetch_and_op");
    MPI_Win_fence(0, win);
    memcpy(&start, at, sizeof start);
    CHECK(got == 1.5 && start == 2.5, "a number across the border: %g, then %g", got, start);
    memcpy(at, &zero, sizeof zero);
    MPI_Win_fence(0, win);
    CHECK_INT(MPI_Compare_and_swap(&next, &zero, &found, MPI_INT64_T, to, there, win), MPI_SUCCESS, "MPI_Compare_and_swap");
    MPI_Win_fence(0, win);
    memcpy(&next, at, sizeof next);
    CHECK(found == 0 && next == 77, "compared and swapped: %lld, then %lld", (long long)found, (long long)next);
}

/* Words of three pieces that have others between them, which are not attached. */
static void scattered(MPI_Win win, int to, int from)
{
    MPI_Aint bases[3], all[3], shifts[3];
    int lengths[3] = {8, 8, 8}, out[24], in[24];
    MPI_Datatype t;
    for (int k = 0; k < 3; k++)
        bases[k] = address_of(apart[k == 1 ? 4 : k == 2 ? 2 : 0]); /* not in order of address */
    MPI_Sendrecv(bases, 3, MPI_AINT, from, 0, all, 3, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int k = 0; k < 3; k++)
        shifts[k] = MPI_Aint_diff(all[k], all[0]);
    MPI_Type_create_hindexed(3, lengths, shifts, MPI_INT, &t);
    MPI_Type_commit(&t);
    for (int i = 0; i < 24; i++)
        out[i] = 100 * test_rank + i, in[i] = -1;
    MPI_Win_fence(0, win);
    CHECK_INT(MPI_Put(out, 24, MPI_INT, to, all[0], 1, t, win), MPI_SUCCESS, "MPI_Put to pieces apart");
    MPI_Win_fence(0, win);
    CHECK(apart[0][7] == 100 * from + 7 && apart[4][0] == 100 * from + 8 && apart[2][7] == 100 * from + 23,
          "words that were put: %d, %d, %d", apart[0][7], apart[4][0], apart[2][7]);
    MPI_Win_fence(0, win);
    MPI_Accumulate(out, 24, MPI_INT, to, all[0], 1, t, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get(in, 24, MPI_INT, to, all[0], 1, t, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 24; i++)
        CHECK_INT(in[i], 2 * out[i], "a word of pieces apart");
    MPI_Type_free(&t);
}

/* One word too far. */
static void refused(MPI_Win win, int to, int from)
{
    int out[WORDS + 1] = {0}, code, at_end;
    MPI_Aint there;
    show(address_of(area), to, from, &there);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    code = MPI_Put(out, WORDS + 1, MPI_INT, to, there, WORDS + 1, MPI_INT, win);
    at_end = MPI_Win_flush(to, win);
    CHECK_CLASS(code ? code : at_end, MPI_ERR_RMA_RANGE, "MPI_Put of a word that is not attached");
    MPI_Win_unlock(to, win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Beyond all addresses. */
    CHECK_CLASS(MPI_Win_attach(win, (char *)UINTPTR_MAX - 4095, 8192), MPI_ERR_RMA_ATTACH, "MPI_Win_attach beyond all addresses");
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    test_init(&argc, &argv);
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int i = 0; i < PIECES; i++) /* not in order of address */
        MPI_Win_attach(win, area + i * 3 % PIECES * EACH, EACH * sizeof(int));
    MPI_Win_attach(win, halves.second, sizeof halves.second);
    MPI_Win_attach(win, halves.first, sizeof halves.first);
    for (int i = 0; i < 5; i += 2)
        MPI_Win_attach(win, apart[i], sizeof apart[i]);
    whole(win, right, left);
    whole(win, test_rank, test_rank);
    across(win, right, left);
    across(win, test_rank, test_rank);
    scattered(win, right, left);
    scattered(win, test_rank, test_rank);
    refused(win, right, left);
    MPI_Win_free(&win);
    return test_finish();
}
