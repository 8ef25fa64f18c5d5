/* Memory that MPI_Win_allocate and MPI_Win_allocate_shared hand out takes no memory before it is
 * touched, and is given back with the window.
 *
 * argv: MiB of each rank. */
#include "rma.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIB = 1 << 20, SLACK = 4 * MIB };

/* Bytes of memory in the anonymous files that this process has open; -1 if there are none. */
static int64_t file_bytes(void)
{
    char link[64], name[64];
    struct dirent *entry;
    struct stat stat;
    int64_t bytes = -1;
    DIR *open_files = opendir("/proc/self/fd");
    while (open_files && (entry = readdir(open_files))) {
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
        ssize_t length = readlink(link, name, sizeof name);
        if (length > 7 && !memcmp(name, "/memfd:", 7) && !fstat(atoi(entry->d_name), &stat))
            bytes = (bytes < 0 ? 0 : bytes) + 512 * (int64_t)stat.st_blocks;
    }
    if (open_files)
        closedir(open_files);
    return bytes;
}

/* Collective: what all ranks have touched since then has memory, and nothing else. */
static void check_growth(const char *when, RmaKind kind, int64_t since, int64_t touched)
{
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t grown = file_bytes() - since;
    CHECK(grown >= touched - SLACK && grown <= touched + SLACK,
          "%s %s: %lld bytes have memory, of which %lld were touched", rma_kinds[kind], when,
          (long long)grown, (long long)touched);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const int64_t one = 1, touched = 8 * MIB;
    test_init(&argc, &argv);
    int64_t bytes = (argc > 1 ? atoll(argv[1]) : 128) * MIB;
    if (file_bytes() < 0)
        return test_skip("the job has no file of its own");
    for (RmaKind kind = RMA_ALLOCATE; kind <= RMA_SHARED; kind++) {
        RmaWindow w;
        int to = (test_rank + 1) % test_size;
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t before = file_bytes(), sum = 0;
        rma_open(&w, kind, bytes, 1, MPI_INFO_NULL);
        check_growth("made", kind, before, 0);
        MPI_Win_fence(0, w.win);
        memset(w.base + bytes / 2, 7, (size_t)touched);
        check_growth("touched", kind, before, test_size * touched);
        MPI_Win_fence(0, w.win);
        MPI_Put(&one, 8, MPI_BYTE, to, bytes - 8, 8, MPI_BYTE, w.win);
        MPI_Win_fence(0, w.win);
        for (int64_t at = bytes - 64; at < bytes; at += 8)
            sum += *(int64_t *)(w.base + at);
        CHECK_INT((int)sum, 1, "the last line after a put");
        MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
        rma_close(&w);
        check_growth("freed", kind, before, 0);
    }
    return test_finish();
}
