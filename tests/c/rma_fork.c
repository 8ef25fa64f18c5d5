/* Children of a fork, while windows of every kind exist and operations go on: memory of the program
 * is a copy of its own in the child, a lock stays its holder's, and the end of a child, with or
 * without the program's exit handlers, ends nothing of its parent.
 *
 * argv: rounds. */
#include "rma.h"

#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, INCREMENTS = 3 };

static RmaWindow w;

/* The bytes that rank `to` gets in a round. */
static uint64_t seed_of(int to, int round)
{
    return (uint64_t)(100 * w.kind + 10 * round + to + 1);
}

static void put_to_the_right(int round)
{
    int right = (test_rank + 1) % test_size;
    unsigned char *buffer = test_alloc(BYTES);
    test_fill(buffer, BYTES, seed_of(right, round));
    MPI_Put(buffer, BYTES, MPI_BYTE, right, rma_disp(&w, right, 0), BYTES, MPI_BYTE, w.win);
    MPI_Win_flush(right, w.win);
    free(buffer);
    rma_sync_barrier(w.win);
}

/* In the child: 0 if its memory is what the parent's was, and can be written. */
static int use_memory(unsigned char *own, uint64_t seed)
{
    int is_own = w.kind == RMA_CREATE || w.kind == RMA_DYNAMIC;
    if (own[0] != 7 || own[BYTES - 1] != 7)
        return 1;
    memset(own, 8, BYTES);
    if (is_own && test_verify(w.base, BYTES, seed) != BYTES)
        return 2;
    if (is_own) /* the parent must not see this */
        memset(w.base, 9, BYTES);
    return 0;
}

static pid_t start_child(unsigned char *own, int round)
{
    pid_t child = fork();
    if (child == 0) {
        int code = use_memory(own, seed_of(test_rank, round));
        if (round % 2)
            exit(code);
        _exit(code);
    }
    CHECK(child > 0, "fork in round %d", round);
    return child;
}

static void await_child(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: the child ended with %#x",
          rma_kinds[w.kind], (unsigned)status);
}

static void fork_amid_puts(int rounds)
{
    unsigned char *own = test_alloc(BYTES);
    memset(own, 7, BYTES);
    MPI_Win_lock_all(0, w.win);
    put_to_the_right(0);
    for (int round = 0; round < rounds; round++) {
        CHECK(test_verify(w.base, BYTES, seed_of(test_rank, round)) == BYTES,
              "%s: wrong bytes before fork %d", rma_kinds[w.kind], round);
        pid_t child = start_child(own, round);
        if (round % 3 == 0)
            await_child(child);
        CHECK(test_verify(w.base, BYTES, seed_of(test_rank, round)) == BYTES,
              "%s: wrong bytes after fork %d", rma_kinds[w.kind], round);
        MPI_Barrier(MPI_COMM_WORLD);
        put_to_the_right(round + 1);
        if (round % 3)
            await_child(child);
        CHECK(test_all(own, BYTES, 7) == BYTES, "the child wrote memory of its parent");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(w.win);
    free(own);
}

/* All ranks increment one counter by a get and a put under its lock, with a child in between. */
static void fork_under_a_lock(void)
{
    int count = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, w.win);
    memset(w.base, 0, sizeof count);
    MPI_Win_unlock(test_rank, w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < INCREMENTS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
        MPI_Get(&count, 1, MPI_INT, 0, rma_disp(&w, 0, 0), 1, MPI_INT, w.win);
        MPI_Win_flush(0, w.win);
        pid_t child = fork();
        if (child == 0)
            exit(0);
        await_child(child);
        count++;
        MPI_Put(&count, 1, MPI_INT, 0, rma_disp(&w, 0, 0), 1, MPI_INT, w.win);
        MPI_Win_unlock(0, w.win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
    MPI_Get(&count, 1, MPI_INT, 0, rma_disp(&w, 0, 0), 1, MPI_INT, w.win);
    MPI_Win_unlock(0, w.win);
    CHECK_INT(count, INCREMENTS * test_size, "increments under the lock");
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 4, one_node = rma_one_node();
    for (int kind = 0; kind < RMA_KINDS; kind++) {
        if (kind == RMA_SHARED && !one_node)
            continue;
        rma_open(&w, (RmaKind)kind, BYTES, 1, MPI_INFO_NULL);
        fork_amid_puts(rounds);
        fork_under_a_lock();
        rma_close(&w);
    }
    return test_finish();
}
