/* What a program does to its own memory by madvise, mremap and realloc has the same effect whether
 * or not the library has migrated the pages (docs/design/mapped.md): zeros after MADV_DONTNEED, no
 * error from MADV_FREE, wiped memory in children, growth by mremap, contents kept by realloc. Every
 * buffer is used in 40 messages first. */
#include "test.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t page;

/* Messages both ways from and to the buffer. */
static void use(unsigned char *buffer, size_t n, int times, uint64_t number)
{
    int peer = 1 - test_rank;
    for (int i = 0; i < times; i++)
        for (int turn = 0; turn < 2; turn++) {
            uint64_t seed = number * 1000 + i * 2 + turn;
            int is_checked = i < 2 || i == times - 1;
            if (turn == test_rank) {
                if (is_checked)
                    test_fill(buffer, n, seed);
                MPI_Send(buffer, (int)n, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
            } else {
                MPI_Recv(buffer, (int)n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                size_t good = is_checked ? test_verify(buffer, n, seed) : n;
                CHECK(good == n, "message %d of buffer %llu: byte %zu differs", i,
                      (unsigned long long)number, good);
            }
        }
}

static unsigned char *pages_of(unsigned char *block, size_t n, size_t *bytes)
{
    unsigned char *first = (unsigned char *)(((uintptr_t)block + page - 1) & ~(page - 1));
    *bytes = (n - (size_t)(first - block)) & ~(page - 1);
    return first;
}

static void check_zero(const unsigned char *p, size_t n, const char *what)
{
    size_t zeros = test_all(p, n, 0);
    CHECK(zeros == n, "%s: byte %zu of %zu is not 0", what, zeros, n);
}

static void advise(void *p, size_t n, int advice, const char *what)
{
    int result = madvise(p, n, advice);
    CHECK(result == 0, "%s: %s", what, strerror(errno));
}

static void in_child(unsigned char *p, size_t n, int expect_zero)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < n; i++)
            if (expect_zero ? p[i] != 0 : p[i] != (unsigned char)(i * 7 + 1))
                _exit(1);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(status == 0, "the child of a fork finds other bytes (%#x)", status);
}

static void blocks(void)
{
    size_t n = 4u << 20, bytes;
    unsigned char *block = test_alloc(n), *first = pages_of(block, n, &bytes);
    use(block, n, 40, 1);
    advise(first, bytes, MADV_DONTNEED, "MADV_DONTNEED");
    check_zero(first, bytes, "after MADV_DONTNEED");
    use(block, n, 10, 2);
    free(block);

    block = test_alloc(n), first = pages_of(block, n, &bytes);
    use(block, n, 40, 3);
    advise(first, bytes, MADV_FREE, "MADV_FREE");
    use(block, n, 10, 4);
    free(block);

    block = test_alloc(n), first = pages_of(block, n, &bytes);
    use(block, n, 40, 5);
    advise(first, bytes, MADV_WIPEONFORK, "MADV_WIPEONFORK");
    for (size_t i = 0; i < bytes; i++)
        first[i] = (unsigned char)(i * 7 + 1);
    in_child(first, bytes, 1);
    advise(first, bytes, MADV_KEEPONFORK, "MADV_KEEPONFORK");
    in_child(first, bytes, 0);

    /* realloc keeps the bytes, larger and smaller */
    static const size_t sizes[] = {9u << 20, 34u << 20, 3u << 20};
    for (int i = 0; i < 3; i++) {
        use(block, n, 12, 6 + (uint64_t)i);
        test_fill(block, n, 77);
        unsigned char *larger = realloc(block, sizes[i]);
        if (!larger)
            MPI_Abort(MPI_COMM_WORLD, 2);
        size_t common = sizes[i] < n ? sizes[i] : n;
        CHECK(test_verify(larger, common, 77) >= common, "realloc to %zu changes bytes", sizes[i]);
        block = larger, n = sizes[i];
    }
    free(block);
}

static void mappings(void)
{
    size_t n = 4u << 20;
    unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int round = 0; round < 3; round++) {
        use(p, n, 40, 20 + (uint64_t)round);
        test_fill(p, n, 5);
        unsigned char *larger = mremap(p, n, 2 * n, MREMAP_MAYMOVE);
        CHECK(larger != MAP_FAILED, "mremap that enlarges: %s", strerror(errno));
        if (larger == MAP_FAILED)
            return;
        CHECK(test_verify(larger, n, 5) >= n, "mremap changes bytes");
        check_zero(larger + n, n, "what mremap adds");
        p = larger, n = 2 * n;
    }
    use(p, n, 12, 30);
    advise(p, n, MADV_DONTNEED, "MADV_DONTNEED on a mapping");
    check_zero(p, n, "a mapping after MADV_DONTNEED");
    munmap(p, n);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (test_size != 2) {
        fprintf(stderr, "mem_advice: wants 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    blocks();
    mappings();
    return test_finish();
}
