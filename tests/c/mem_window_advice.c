/* What a program does by madvise to memory that is a window, between epochs: it reads as zeros
 * afterwards, and later puts still arrive (docs/design/mapped.md). The whole window, a part of it,
 * pages on both sides of the window's end, by madvise, posix_madvise, process_madvise and syscall;
 * while another thread of the target loads and stores the rest, with argument `threads`. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const size_t BYTES = (size_t)1 << 20;
static size_t page;
static volatile int stop;
static volatile unsigned char *beside; /* a page after the window, of the same block */
static long lost;

static void *store_beside(void *unused)
{
    (void)unused;
    unsigned char k = 0;
    while (!stop) {
        k++;
        for (size_t i = 0; i < page; i++)
            beside[i] = k;
        for (size_t i = 0; i < page; i++)
            lost += beside[i] != k;
    }
    return NULL;
}

enum way { BY_MADVISE, BY_FREE, BY_POSIX, BY_SYSCALL, BY_PROCESS, WAYS };

/* Gives the bytes back; whether they must read as zeros then. */
static int discard(unsigned char *p, size_t n, enum way way)
{
    int result = 0, zeros = 1;
    switch (way) {
    case BY_MADVISE:
        result = madvise(p, n, MADV_DONTNEED);
        break;
    case BY_FREE:
        result = madvise(p, n, MADV_FREE);
        zeros = 0;
        break;
    case BY_POSIX:
        result = posix_madvise(p, n, POSIX_MADV_DONTNEED);
        zeros = 0; /* of no effect in the C library */
        break;
    case BY_SYSCALL:
        result = (int)syscall(SYS_madvise, p, n, MADV_DONTNEED);
        break;
    case BY_PROCESS: {
        struct iovec piece = { p, n };
        int self = (int)syscall(434 /* pidfd_open */, getpid(), 0);
        long done = self < 0 ? -1 : syscall(440, self, &piece, 1, MADV_DONTNEED, 0);
        zeros = done == (long)n; /* kernels before 6.13 refuse */
        if (self >= 0)
            close(self);
        break;
    }
    default:
        break;
    }
    CHECK(result == 0, "way %d: %s", (int)way, strerror(errno));
    return zeros;
}

static void check_is(const unsigned char *p, size_t n, unsigned char value, const char *what)
{
    size_t good = test_all(p, n, value);
    CHECK(good == n, "%s: byte %zu of %zu is %d, not %d", what, good, n, p[good], value);
}

/* Puts to all of the window, then gives back `n` bytes at `from`, and so on. */
static void rounds(MPI_Win window, unsigned char *memory, MPI_Aint base, size_t from, size_t n)
{
    unsigned char *source = test_alloc(BYTES);
    for (int k = 0; k < 2 * WAYS; k++) {
        unsigned char value = (unsigned char)(100 + k);
        memset(source, value, BYTES);
        MPI_Win_fence(0, window);
        if (test_rank == 1)
            MPI_Put(source, (int)BYTES, MPI_BYTE, 0, base, (int)BYTES, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        if (test_rank == 0) {
            check_is(memory, BYTES, value, "after a put");
            int zeros = discard(memory + from, n, (enum way)(k % WAYS));
            size_t inside = from + n > BYTES ? BYTES - from : n;
            if (zeros)
                check_is(memory + from, inside, 0, "after madvise");
            check_is(memory, from, value, "before the part");
            check_is(memory + from + inside, BYTES - from - inside, value, "after the part");
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(source);
}

int main(int argc, char **argv)
{
    int provided, with_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    test_needs(2);
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (int is_dynamic = 0; is_dynamic < 2; is_dynamic++) {
        void *block;
        MPI_Win window;
        MPI_Aint base = 0;
        /* Pages of the program's lie behind the window. */
        if (posix_memalign(&block, 1 << 21, BYTES + 8 * page) != 0)
            MPI_Abort(MPI_COMM_WORLD, 3);
        unsigned char *memory = block;
        memset(memory, 1, BYTES + 8 * page);
        if (is_dynamic) {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
            if (test_rank == 0)
                MPI_Win_attach(window, memory, (MPI_Aint)BYTES);
            MPI_Get_address(memory, &base);
            MPI_Bcast(&base, 1, MPI_AINT, 0, MPI_COMM_WORLD);
        } else {
            MPI_Win_create(memory, (MPI_Aint)BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        }
        beside = memory + BYTES + 4 * page;
        stop = 0;
        if (with_threads && test_rank == 0)
            pthread_create(&thread, NULL, store_beside, NULL);
        rounds(window, memory, base, 0, BYTES);
        rounds(window, memory, base, 16 * page, 32 * page);
        rounds(window, memory, base, BYTES - 4 * page, 6 * page);
        if (with_threads && test_rank == 0) {
            stop = 1;
            pthread_join(thread, NULL);
            CHECK(lost == 0, "%ld stores of the other thread are gone", lost);
        }
        if (is_dynamic && test_rank == 0)
            MPI_Win_detach(window, memory);
        MPI_Win_free(&window);
        /* The memory is the program's again. */
        if (test_rank == 0 && !with_threads) {
            discard(memory, BYTES, BY_MADVISE);
            check_is(memory, BYTES, 0, "after the window");
        }
        free(block);
    }
    return test_finish();
}
