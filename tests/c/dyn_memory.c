/* Windows and files over processes that were not started together: memory that MPI allocates, that
 * the program has, and that is shared; every synchronization; MPI_File; and whose memory is shared.
 *
 *     dyn_memory CHILDREN */
#include "spawned.h"

enum { WORDS = 1000 };

static int rank, size;

/* Every rank puts into the next one's memory, gets from it and adds to it. */
static void use(MPI_Win win, const long *memory, int locks)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    long out[WORDS], in[WORDS], one = 1, old = -1, sum[2] = {10, 20};
    for (int i = 0; i < WORDS; i++)
        out[i] = rank * 100000L + i;
    if (locks)
        MPI_Win_lock_all(0, win);
    else
        MPI_Win_fence(0, win);
    MPI_Put(out, WORDS, MPI_LONG, next, 0, WORDS, MPI_LONG, win);
    if (locks) {
        MPI_Win_flush_all(win);
        MPI_Get(in, WORDS, MPI_LONG, next, 0, WORDS, MPI_LONG, win);
        MPI_Win_flush(next, win);
        for (int i = 0; i < WORDS; i++)
            CHECK_INT(in[i], rank * 100000L + i, "what was put");
        MPI_Win_unlock_all(win);
    } else {
        MPI_Win_fence(0, win);
        for (int i = 0; i < WORDS; i++)
            CHECK_INT(memory[i], before * 100000L + i, "what the one before has put");
    }
    MPI_Win_fence(0, win);
    /* All add to rank 0's last words. */
    MPI_Accumulate(sum, 2, MPI_LONG, 0, WORDS + 1, 2, MPI_LONG, MPI_SUM, win);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, WORDS, MPI_SUM, win);
    MPI_Win_fence(0, win);
    CHECK(old >= 0 && old < size, "fetched %ld", old);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(in, 3, MPI_LONG, 0, WORDS, 3, MPI_LONG, win);
    MPI_Win_flush(0, win);
    MPI_Put(in, 3, MPI_LONG, 0, WORDS, 3, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    CHECK_INT(in[0], size, "count of all ranks");
    CHECK_INT(in[1], 10L * size, "sum");
    CHECK_INT(in[2], 20L * size, "sum");
    /* Nobody begins anew before all have read. */
    MPI_Win_fence(0, win);
}

static void clear(MPI_Win win, long *memory)
{
    memset(memory, 0, (WORDS + 3) * sizeof *memory);
    MPI_Win_fence(0, win);
    MPI_Win_fence(0, win);
}

static void windows(MPI_Comm all)
{
    const MPI_Aint bytes = (WORDS + 3) * sizeof(long);
    long *memory = test_alloc((size_t)bytes), *given;
    MPI_Win win;
    MPI_Win_create(memory, bytes, sizeof(long), MPI_INFO_NULL, all, &win);
    for (int locks = 0; locks < 2; locks++) {
        clear(win, memory);
        use(win, memory, locks);
    }
    MPI_Win_free(&win);
    free(memory);
    MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, all, &given, &win);
    for (int locks = 0; locks < 2; locks++) {
        clear(win, given);
        use(win, given, locks);
    }
    MPI_Win_free(&win);
    MPI_Win_allocate_shared(bytes, sizeof(long), MPI_INFO_NULL, all, &given, &win);
    clear(win, given);
    use(win, given, 0);
    /* By loads of the others' memory. */
    for (int peer = 0; peer < size; peer++) {
        long *of_peer = NULL;
        MPI_Aint length = 0;
        int unit = 0;
        MPI_Win_shared_query(win, peer, &length, &unit, &of_peer);
        CHECK_INT(length, bytes, "bytes of a peer");
        for (int i = 0; i < WORDS; i++)
            CHECK_INT(of_peer[i], (peer + size - 1) % size * 100000L + i, "a peer's word");
    }
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* Every rank exposes to the two beside it. */
static void neighbours(MPI_Comm all)
{
    long memory = -1, mine = rank;
    int next[1] = {(rank + 1) % size}, before[1] = {(rank + size - 1) % size};
    MPI_Group group, origin, target;
    MPI_Win win;
    MPI_Comm_group(all, &group);
    MPI_Group_incl(group, 1, next, &target);
    MPI_Group_incl(group, 1, before, &origin);
    MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, all, &win);
    MPI_Win_post(origin, 0, win);
    MPI_Win_start(target, 0, win);
    MPI_Put(&mine, 1, MPI_LONG, next[0], 0, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    CHECK_INT(memory, before[0], "what the origin has put");
    MPI_Win_free(&win);
    MPI_Group_free(&group);
    MPI_Group_free(&origin);
    MPI_Group_free(&target);
}

static void file(MPI_Comm all)
{
    char name[PATH_MAX] = "";
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    long out[WORDS], in[WORDS], shared[1] = {rank};
    MPI_File fh;
    MPI_Offset end = 0;
    const char *folder = getenv("TMPDIR");
    if (rank == 0)
        snprintf(name, sizeof name, "%s/dyn_memory_%ld", folder ? folder : "/tmp", (long)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, all);
    CHECK_INT(MPI_File_open(all, name, mode, MPI_INFO_NULL, &fh), MPI_SUCCESS, "MPI_File_open");
    for (int i = 0; i < WORDS; i++)
        out[i] = rank * 1000L + i;
    MPI_Offset place = (MPI_Offset)rank * (MPI_Offset)sizeof out;
    MPI_File_write_at_all(fh, place, out, WORDS, MPI_LONG, MPI_STATUS_IGNORE);
    MPI_File_sync(fh);
    MPI_Barrier(all);
    int other = (rank + 1) % size;
    place = (MPI_Offset)other * (MPI_Offset)sizeof out;
    MPI_File_read_at_all(fh, place, in, WORDS, MPI_LONG, MPI_STATUS_IGNORE);
    for (int i = 0; i < WORDS; i++)
        CHECK_INT(in[i], other * 1000L + i, "what another rank has written");
    /* The shared pointer: each word once. */
    MPI_File_set_size(fh, 0);
    MPI_File_seek_shared(fh, 0, MPI_SEEK_SET);
    MPI_File_write_shared(fh, shared, 1, MPI_LONG, MPI_STATUS_IGNORE);
    MPI_Barrier(all);
    MPI_File_get_size(fh, &end);
    CHECK_INT(end, size * (long)sizeof(long), "size after writing by the shared pointer");
    MPI_File_read_at(fh, 0, in, size, MPI_LONG, MPI_STATUS_IGNORE);
    long sum = 0;
    for (int i = 0; i < size; i++)
        sum += in[i];
    CHECK_INT(sum, (long)size * (size - 1) / 2, "sum of all ranks in the file");
    MPI_File_close(&fh);
}

static void shared(MPI_Comm all)
{
    int count;
    MPI_Comm node;
    MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &count);
    CHECK_INT(count, size, "ranks that share memory");
    MPI_Comm_free(&node);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &count);
    CHECK_INT(count, test_size, "ranks of this world that share memory");
    MPI_Comm_free(&node);
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm inter = spawned_parent, all;
    int is_child = inter != MPI_COMM_NULL;
    if (!is_child)
        inter = spawn_self(atoi(argv[1]), argv[1], NULL, NULL, 0, MPI_COMM_WORLD);
    MPI_Intercomm_merge(inter, !is_child, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    windows(all);
    neighbours(all);
    file(all);
    shared(all);
    MPI_Comm_free(&all);
    if (is_child)
        return spawned_finish();
    spawned_end(&inter);
    return test_finish();
}
