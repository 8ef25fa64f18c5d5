/* Every store of another thread stays, whatever the library does with the pages meanwhile
 * (docs/design/mapped.md). The other thread stores all the time, to memory that becomes a window
 * (MPI_Win_create, MPI_Win_attach), to what shares its pages with buffers of messages, collectives
 * and transfers to windows, between the blocks of a derived datatype, and to partitions that are not
 * ready; and it reads the buffers that are sent. The rounds are the argument. */
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static const size_t BYTES = (size_t)8 << 20;
static size_t page;

/* One store to each place, remembered here: byte `first + i * step` of `memory`. */
static struct {
    volatile unsigned char *memory;
    size_t first, step, number;
    unsigned char *done;
    volatile int stop;
    volatile unsigned turns;
} writes;
static const unsigned char *volatile reads;
static volatile size_t reads_number;
static volatile long wrong_reads;

static void *store(void *unused)
{
    (void)unused;
    unsigned s = 12345;
    for (unsigned turn = 1; !writes.stop; writes.turns = turn++) {
        s = s * 1103515245 + 12345;
        size_t i = (s >> 8) % writes.number;
        if (!writes.done[i]) {
            writes.memory[writes.first + i * writes.step] = 1;
            writes.done[i] = 1;
        }
        for (volatile int pause = 0; pause < 300; pause++)
            ;
        const unsigned char *buffer = reads;
        if (buffer && buffer[s % reads_number] != 7)
            wrong_reads++;
        if (turn % 20000 == 0)
            usleep(100); /* gives the core to ranks that share it; nothing waits for this */
    }
    return NULL;
}

static pthread_t begin(unsigned char *memory, size_t first, size_t step, size_t number)
{
    pthread_t thread;
    writes.memory = memory;
    writes.first = first;
    writes.step = step;
    writes.number = number;
    writes.done = test_alloc(number);
    memset(writes.done, 0, number);
    writes.stop = 0;
    writes.turns = 0;
    for (size_t i = 0; i < number; i++)
        memory[first + i * step] = 0;
    pthread_create(&thread, NULL, store, NULL);
    while (writes.turns == 0)
        sched_yield();
    return thread;
}

static void end(pthread_t thread, const char *what)
{
    size_t stores = 0, lost = 0;
    writes.stop = 1;
    pthread_join(thread, NULL);
    for (size_t i = 0; i < writes.number; i++) {
        stores += writes.done[i];
        lost += writes.memory[writes.first + i * writes.step] != writes.done[i];
    }
    CHECK(lost == 0, "%s: %zu of %zu stores are gone", what, lost, stores);
    CHECK(wrong_reads == 0, "%s: %ld reads of a buffer were wrong", what, wrong_reads);
    wrong_reads = 0;
    free(writes.done);
}

/* Memory that is becoming a window. */
static void windows(int is_dynamic)
{
    unsigned char *memory = test_alloc(BYTES);
    MPI_Win window;
    memset(memory, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_dynamic)
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    pthread_t thread = begin(memory, 100, page, BYTES / page);
    if (is_dynamic)
        MPI_Win_attach(window, memory, (MPI_Aint)BYTES);
    else
        MPI_Win_create(memory, (MPI_Aint)BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    end(thread, is_dynamic ? "MPI_Win_attach" : "MPI_Win_create");
    if (is_dynamic)
        MPI_Win_detach(window, memory);
    MPI_Win_free(&window);
    free(memory);
}

/* What shares pages with the buffers: both begin and end in the middle of one. */
static void beside(void)
{
    size_t n = (size_t)256 << 10, each = n + page, number = 4;
    unsigned char *memory = test_alloc(number * each + 2 * page), *bytes = test_alloc(number * each);
    memory = (unsigned char *)(((uintptr_t)memory + page - 1) & ~(uintptr_t)(page - 1));
    memset(memory, 7, number * each);
    MPI_Win window;
    MPI_Win_create(bytes, (MPI_Aint)(number * each), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    pthread_t thread = begin(memory, 0, each, number);
    reads_number = n - page;
    for (size_t i = 0; i < number; i++) {
        unsigned char *buffer = memory + i * each + page / 2;
        int peer = test_rank ^ 1;
        reads = buffer;
        for (int k = 0; k < 10; k++) {
            if (peer < test_size)
                MPI_Sendrecv(buffer, (int)n, MPI_BYTE, peer, 0, bytes, (int)n, MPI_BYTE, peer, 0,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Allgather(buffer, (int)(n / 16), MPI_BYTE, bytes, (int)(n / 16), MPI_BYTE,
                          MPI_COMM_WORLD);
            MPI_Bcast(test_rank == 0 ? buffer : bytes, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD);
            MPI_Win_fence(0, window);
            MPI_Put(buffer, (int)n, MPI_BYTE, (test_rank + 1) % test_size, 0, (int)n, MPI_BYTE,
                    window);
            MPI_Win_fence(0, window);
        }
        reads = NULL;
    }
    end(thread, "beside buffers");
    MPI_Win_free(&window);
}

/* The columns that a datatype leaves out. */
static void between(void)
{
    size_t block = 4 * page, number = 64;
    unsigned char *memory = test_alloc(2 * number * block), *bytes = test_alloc(number * block);
    memset(memory, 7, 2 * number * block);
    MPI_Datatype type;
    MPI_Type_vector((int)number, (int)block, (int)(2 * block), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    pthread_t thread = begin(memory, block + 100, 2 * block, number);
    for (int k = 0; k < 10; k++) {
        int peer = test_rank ^ 1;
        if (peer < test_size)
            MPI_Sendrecv(memory, 1, type, peer, 0, bytes, (int)(number * block), MPI_BYTE, peer, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Bcast(memory, 1, type, 0, MPI_COMM_WORLD);
    }
    end(thread, "between the blocks of a datatype");
    MPI_Type_free(&type);
    free(memory);
    free(bytes);
}

/* Partitions that are not ready yet, while others are on their way. */
static void partitions(void)
{
    int number = 8, peer = test_rank ^ 1;
    size_t each = 16 * page + page / 2;
    unsigned char *memory = test_alloc(number * each);
    MPI_Request request;
    memset(memory, 7, number * each);
    if (peer >= test_size) {
        free(memory);
        return;
    }
    if (test_rank % 2 == 0)
        MPI_Psend_init(memory, number, (MPI_Count)each, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(memory, number, (MPI_Count)each, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &request);
    for (int k = 0; k < 12; k++) {
        MPI_Start(&request);
        if (test_rank % 2 == 0) {
            pthread_t thread = begin(memory, number / 2 * each, 256, number / 2 * each / 256);
            int flag = 0;
            MPI_Pready_range(0, number / 2 - 1, request);
            for (int i = 0; i < 20 && !flag; i++)
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            end(thread, "partitions that are not ready");
            MPI_Pready_range(number / 2, number - 1, request);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    free(memory);
}

int main(int argc, char **argv)
{
    int provided, rounds = argc > 1 ? atoi(argv[1]) : 10;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (int k = 0; k < rounds; k++) {
        windows(0);
        windows(1);
    }
    for (int k = 0; k < rounds / 5 + 1; k++) {
        beside();
        between();
        partitions();
    }
    return test_finish();
}
