/* Memory that was migrated for messages is given back to the system soon after the program has
 * freed it, whether or not it calls MPI again (docs/design/mapped.md). Measured by the blocks of
 * the job's memfd. Arguments: MiB of the buffer (64), small messages after the free (0). */
#include "test.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Bytes of memory behind the job's file: the largest memfd that is open here. */
static long long file_bytes(void)
{
    long long most = 0;
    DIR *fds = opendir("/proc/self/fd");
    if (!fds)
        return -1;
    for (struct dirent *entry; (entry = readdir(fds));) {
        char path[300], target[300];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        struct stat status;
        if (length < 8 || strncmp(target, "/memfd:", 7) != 0 || stat(path, &status) != 0)
            continue;
        if (status.st_blocks * 512LL > most)
            most = status.st_blocks * 512LL;
    }
    closedir(fds);
    return most;
}

/* Sleeps, without a call of MPI, until the file has at most `limit` bytes; 20 seconds at most. */
static void wait_for(long long limit, const char *what)
{
    long long bytes = 0;
    for (int i = 0; i < 2000; i++) {
        bytes = file_bytes();
        if (bytes <= limit)
            return;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    CHECK(0, "%s: %lld bytes after 20 s, expected %lld", what, bytes, limit);
}

static void use(unsigned char *buffer, size_t n, int times, uint64_t number)
{
    for (int i = 0; i < times; i++)
        for (int turn = 0; turn < 2; turn++) {
            int peer = 1 - test_rank;
            if (turn == test_rank) {
                if (i == 0)
                    test_fill(buffer, n, number + (uint64_t)turn);
                MPI_Send(buffer, (int)n, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            } else {
                MPI_Recv(buffer, (int)n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
}

int main(int argc, char **argv)
{
    const long long mib = 1 << 20;
    test_init(&argc, &argv);
    size_t n = (size_t)((argc > 1 ? atoi(argv[1]) : 64) * mib);
    int small = argc > 2 ? atoi(argv[2]) : 0;
    if (test_size != 2) {
        fprintf(stderr, "mem_giveback: wants 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    unsigned char *token = test_alloc(64);
    use(token, 64, 100, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    long long empty = file_bytes(), slack = 16 * mib;
    if (empty <= 0) {
        fprintf(stderr, "mem_giveback: no memfd is open here\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int round = 0; round < 2; round++) {
        unsigned char *buffer = test_alloc(n);
        use(buffer, n, 12, 10 + 2 * (uint64_t)round);
        MPI_Barrier(MPI_COMM_WORLD);
        long long used = file_bytes() - empty;
        CHECK(used <= 2 * (long long)n + slack, "round %d: %lld bytes for two buffers of %zu",
              round, used, n);
        /* Otherwise this test shows nothing. MICA_DIRECT=cma would be such a case. */
        CHECK(used >= 2 * (long long)n, "round %d: the buffers have not migrated: %lld bytes",
              round, used);
        MPI_Barrier(MPI_COMM_WORLD);
        free(buffer);
        use(token, 64, small, 20);
        wait_for(empty + slack, "after free");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int round = 0; round < 21; round++) {
        size_t bytes = (size_t)((16 + round % 7) * mib);
        unsigned char *buffer = test_alloc(bytes + 100);
        /* as long on both ranks */
        use(buffer + round, bytes, 9, 30 + 2 * (uint64_t)round);
        free(buffer);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Each rank's malloc keeps at most twice the largest block that was freed, as it does without
     * MPI, and after malloc_trim at most one such block below something that is in use. */
    wait_for(empty + 2 * 45 * mib + slack, "after 21 rounds");
    malloc_trim(0);
    MPI_Barrier(MPI_COMM_WORLD);
    wait_for(empty + 2 * 23 * mib + slack, "after malloc_trim");
    return test_finish();
}
