/* What callgrind counts for the instruction guard (tests/jobs/instructions.rs).
 *
 *     mpiexec -n 2 valgrind --tool=callgrind --toggle-collect='counted_*' ... PROGRAM BATCHES FILE
 *         [mpif | f08 | vector | section | test | testany | testsome | testall | iprobe | improbe | start | put | get | fetch | swap | accumulate | lock | post |
 *          partitions]
 *
 * Rank 0 sends BATCHES times 32 messages of 8 bytes, rank 1 receives them, and only what happens
 * inside counted_send and counted_receive is collected. Nothing of that may depend on who is
 * faster: a receive that waits spins, and spinning has no fixed number of instructions. So a batch
 * is sent whole before its first receive begins, and the ranks take turns through a word of FILE,
 * mapped by both, rather than through MPI: a barrier would make progress, and the messages would be
 * unexpected before their receives are called. With `mpif` and `f08` they go
 * through the functions that Fortran calls; with `section` the message is a section of an array that Fortran
 * sends, with `vector` the same by a committed datatype. With `test` rank 0 instead tests BATCHES times 32
 * times a receive without a message yet, or by another call that finds nothing; with `start` the messages go by MPI_Isend to receives that
 * MPI_Irecv has posted before; with the others it accesses rank 1's part of an allocated
 * window as often, but for these: `post` is an exposure by rank 1 and an access by rank 0, in turns;
 * of `partitions`, rank 0 counts those that complete no message, rank 1 those that have arrived.
 * Each rank prints "RANK PID", by which its profile is found. */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32 };

__attribute__((noinline)) void counted_send(uint64_t *value)
{
    MPI_Send(value, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
}

__attribute__((noinline)) void counted_receive(uint64_t *value)
{
    MPI_Recv(value, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* What a compiler of Fortran calls: by addresses, and with a descriptor of TS 29113 (gfortran's version) of one element of 8 bytes. */
typedef struct {
    void *address;
    size_t element;
    int version;
    signed char rank, attribute;
    short type;
} Descriptor;

static void (*mpi_send)(const void *, int *, int *, int *, int *, int *, int *);
static void (*mpi_recv)(void *, int *, int *, int *, int *, int *, MPI_Status *, int *);
static void (*send_f08ts)(const Descriptor *, int *, int *, int *, int *, int *, int *);
static void (*recv_f08ts)(const Descriptor *, int *, int *, int *, int *, int *, MPI_Status *, int *);
static int eight = 8, zero = 0, one = 1, bytes, world, code;
static MPI_Status status;

__attribute__((noinline)) void counted_mpif_send(uint64_t *value)
{
    mpi_send(value, &eight, &bytes, &one, &zero, &world, &code);
}

__attribute__((noinline)) void counted_mpif_receive(uint64_t *value)
{
    mpi_recv(value, &eight, &bytes, &zero, &zero, &world, &status, &code);
}

__attribute__((noinline)) void counted_f08_send(uint64_t *value)
{
    const Descriptor buffer = {value, 8, 1, 0, 2, 0};
    send_f08ts(&buffer, &eight, &bytes, &one, &zero, &world, NULL);
}

__attribute__((noinline)) void counted_f08_receive(uint64_t *value)
{
    const Descriptor buffer = {value, 8, 1, 0, 2, 0};
    recv_f08ts(&buffer, &eight, &bytes, &zero, &zero, &world, &status, NULL);
}

/* Ten numbers, each the first one of four. */
enum { NUMBERS = 10 };
static uint64_t matrix[NUMBERS][4];
static MPI_Datatype column;
static int ten = NUMBERS, numbers;

__attribute__((noinline)) void counted_vector_send(uint64_t *value)
{
    matrix[0][0] = *value;
    MPI_Send(matrix, 1, column, 1, 0, MPI_COMM_WORLD);
}

__attribute__((noinline)) void counted_section_send(uint64_t *value)
{
    const struct {
        Descriptor head;
        intptr_t lower, extent, stride;
    } section = {{matrix, 8, 1, 1, 2, 0}, 0, NUMBERS, sizeof *matrix};
    matrix[0][0] = *value;
    send_f08ts(&section.head, &ten, &numbers, &one, &zero, &world, NULL);
}

__attribute__((noinline)) void counted_numbers_receive(uint64_t *value)
{
    uint64_t all[NUMBERS];
    MPI_Recv(all, NUMBERS, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *value = all[0];
}

__attribute__((noinline)) void counted_start_send(const uint64_t *value, MPI_Request *request)
{
    MPI_Isend(value, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD, request);
}

__attribute__((noinline)) void counted_start_receive(uint64_t *value, MPI_Request *request)
{
    MPI_Irecv(value, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, request);
}

__attribute__((noinline)) int counted_test(MPI_Request *request)
{
    int flag;
    MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    return flag;
}

__attribute__((noinline)) int counted_testany(MPI_Request *request)
{
    int flag, index;
    MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE);
    return flag;
}

__attribute__((noinline)) int counted_testsome(MPI_Request *request)
{
    int count, index;
    MPI_Testsome(1, request, &count, &index, MPI_STATUSES_IGNORE);
    return count;
}

__attribute__((noinline)) int counted_testall(MPI_Request *request)
{
    int flag;
    MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE);
    return flag;
}

__attribute__((noinline)) int counted_iprobe(MPI_Request *unused)
{
    int flag;
    (void)unused;
    MPI_Iprobe(1, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return flag;
}

__attribute__((noinline)) int counted_improbe(MPI_Request *unused)
{
    int flag;
    MPI_Message message;
    (void)unused;
    MPI_Improbe(1, 1, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    return flag;
}

/* Calls that find nothing. */
static const struct {
    const char *name;
    int (*call)(MPI_Request *);
} tests[] = {
    {"test", counted_test},       {"testany", counted_testany}, {"testsome", counted_testsome},
    {"testall", counted_testall}, {"iprobe", counted_iprobe},   {"improbe", counted_improbe},
};

enum { TESTS = sizeof tests / sizeof *tests };

/* The number of the call of this name; TESTS if there is none. */
static size_t test_of(const char *name)
{
    size_t i = 0;
    while (i < TESTS && strcmp(tests[i].name, name))
        i++;
    return i;
}

static MPI_Win window;

__attribute__((noinline)) void counted_put(double *value)
{
    MPI_Put(value, 1, MPI_DOUBLE, 1, 3, 1, MPI_DOUBLE, window);
    MPI_Win_flush(1, window);
}

__attribute__((noinline)) void counted_get(double *value)
{
    MPI_Get(value, 1, MPI_DOUBLE, 1, 3, 1, MPI_DOUBLE, window);
    MPI_Win_flush_local(1, window);
}

__attribute__((noinline)) void counted_swap(int64_t number, int64_t *value)
{
    const int64_t next = number + 1;
    MPI_Compare_and_swap(&next, &number, value, MPI_INT64_T, 1, 11, window);
}

__attribute__((noinline)) void counted_post(MPI_Group other)
{
    MPI_Win_post(other, 0, window);
}

__attribute__((noinline)) void counted_wait(void)
{
    MPI_Win_wait(window);
}

__attribute__((noinline)) void counted_access(MPI_Group other)
{
    MPI_Win_start(other, 0, window);
    MPI_Win_complete(window);
}

__attribute__((noinline)) void counted_ready(int partition, MPI_Request request)
{
    MPI_Pready(partition, request);
}

__attribute__((noinline)) int counted_arrived(int partition, MPI_Request request)
{
    int flag;
    MPI_Parrived(request, partition, &flag);
    return flag;
}

__attribute__((noinline)) void counted_fetch(int64_t *value)
{
    const int64_t one = 1;
    MPI_Fetch_and_op(&one, value, MPI_INT64_T, 1, 5, MPI_SUM, window);
}

__attribute__((noinline)) void counted_accumulate(double *value)
{
    MPI_Accumulate(value, 1, MPI_DOUBLE, 1, 7, 1, MPI_DOUBLE, MPI_SUM, window);
}

__attribute__((noinline)) void counted_lock(double *value)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
    MPI_Put(value, 1, MPI_DOUBLE, 1, 9, 1, MPI_DOUBLE, window);
    MPI_Win_unlock(1, window);
}

static void quit(const char *what, const char *value)
{
    fprintf(stderr, "instructions: %s: '%s'\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Waits outside of MPI until the word has this value. SYNC turn: pairs with the stores below. */
static void await(_Atomic uint64_t *turn, uint64_t value)
{
    const struct timespec nap = {0, 20000};
    while (atomic_load_explicit(turn, memory_order_acquire) != value)
        nanosleep(&nap, NULL);
}

/* Sends and receives, by the name of the interface. */
static const struct {
    const char *name;
    void (*send)(uint64_t *), (*receive)(uint64_t *);
} interfaces[] = {
    {"c", counted_send, counted_receive},
    {"mpif", counted_mpif_send, counted_mpif_receive},
    {"f08", counted_f08_send, counted_f08_receive},
    {"vector", counted_vector_send, counted_numbers_receive},
    {"section", counted_section_send, counted_numbers_receive},
};

enum { INTERFACES = sizeof interfaces / sizeof *interfaces };

/* Looks the functions of Fortran up in their library, which lies beside that of C; the program is compiled without a compiler of
 * Fortran. */
static void look_up(void)
{
    void *library = dlopen("libmpifort_abi.so.1", RTLD_NOW);
    if (!library)
        quit("Fortran's library", dlerror());
    *(void **)&mpi_send = dlsym(library, "mpi_send_");
    *(void **)&mpi_recv = dlsym(library, "mpi_recv_");
    *(void **)&send_f08ts = dlsym(library, "MPI_Send_f08ts");
    *(void **)&recv_f08ts = dlsym(library, "MPI_Recv_f08ts");
    if (!mpi_send || !mpi_recv || !send_f08ts || !recv_f08ts)
        quit("Fortran's library", "lacks a function");
    bytes = MPI_Type_c2f(MPI_BYTE);
    numbers = MPI_Type_c2f(MPI_UINT64_T);
    world = MPI_Comm_c2f(MPI_COMM_WORLD);
    MPI_Type_vector(NUMBERS, 1, 4, MPI_UINT64_T, &column);
    MPI_Type_commit(&column);
}

static void exchange(_Atomic uint64_t *turn, uint64_t batches, int rank, int interface)
{
    for (uint64_t batch = 0; batch < batches; batch++) {
        await(turn, 2 * batch + (uint64_t)rank);
        for (uint64_t i = 0; i < BATCH; i++) {
            uint64_t number = batch * BATCH + i, value = number;
            if (rank == 0) {
                interfaces[interface].send(&value);
            } else {
                value = UINT64_MAX;
                interfaces[interface].receive(&value);
                if (value != number)
                    quit("a message is not the one expected", "wrong number");
            }
        }
        /* SYNC turn: what this rank did happens before the other's turn. */
        atomic_store_explicit(turn, 2 * batch + (uint64_t)rank + 1, memory_order_release);
    }
}

/* Receives are posted before their messages are sent. */
static void start(_Atomic uint64_t *turn, uint64_t batches, int rank)
{
    uint64_t values[BATCH];
    MPI_Request requests[BATCH];
    for (uint64_t batch = 0; batch < batches; batch++) {
        for (uint64_t i = 0; rank == 1 && i < BATCH; i++)
            counted_start_receive(&values[i], &requests[i]);
        /* SYNC turn: as in exchange. */
        if (rank == 1)
            atomic_store_explicit(turn, batch + 1, memory_order_release);
        else
            await(turn, batch + 1);
        for (uint64_t i = 0; rank == 0 && i < BATCH; i++) {
            values[i] = batch * BATCH + i;
            counted_start_send(&values[i], &requests[i]);
        }
        MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
        for (uint64_t i = 0; i < BATCH; i++)
            if (values[i] != batch * BATCH + i)
                quit("a message is not the one expected", "wrong number");
    }
}

static void test(_Atomic uint64_t *turn, uint64_t batches, int rank, size_t which)
{
    uint64_t value = 7;
    MPI_Request request;
    if (rank == 1) {
        await(turn, 1);
        MPI_Send(&value, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        return;
    }
    MPI_Irecv(&value, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
    for (uint64_t i = 0; i < batches * BATCH; i++)
        if (tests[which].call(&request))
            quit("a receive is complete without a message", tests[which].name);
    /* SYNC turn: as in exchange. */
    atomic_store_explicit(turn, 1, memory_order_release);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 0 alone is active; rank 1 checks what it has done. */
static void operate(const char *what, uint64_t batches, int rank)
{
    double *part, value = 2;
    int64_t before;
    MPI_Win_allocate(16 * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &window);
    memset(part, 0, 16 * 8);
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t times = (int64_t)(batches * BATCH);
    if (rank == 0 && !strcmp(what, "lock")) {
        for (int64_t i = 0; i < times; i++)
            counted_lock(&value);
    } else if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        for (int64_t i = 0; i < times; i++) {
            if (!strcmp(what, "put"))
                counted_put(&value);
            else if (!strcmp(what, "get"))
                counted_get(&value);
            else if (!strcmp(what, "swap"))
                counted_swap(i, &before);
            else if (!strcmp(what, "accumulate"))
                counted_accumulate(&value);
            else
                counted_fetch(&before);
        }
        MPI_Win_unlock(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        int64_t fetched, swapped;
        memcpy(&fetched, part + 5, sizeof fetched);
        memcpy(&swapped, part + 11, sizeof swapped);
        int is_done = !strcmp(what, "put")          ? part[3] == 2
                      : !strcmp(what, "lock")       ? part[9] == 2
                      : !strcmp(what, "accumulate") ? part[7] == 2. * (double)times
                      : !strcmp(what, "swap")       ? swapped == times
                      : !strcmp(what, "fetch")      ? fetched == times
                                                    : 1;
        if (!is_done)
            quit("the window does not have what rank 0 did", what);
    } else if (!strcmp(what, "get") && value != 0) {
        quit("rank 1's part has another value", what);
    }
    MPI_Win_free(&window);
}

static void post(_Atomic uint64_t *turn, uint64_t batches, int rank)
{
    double *part;
    MPI_Group world, other;
    const int peer = 1 - rank;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &peer, &other);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &window);
    for (uint64_t i = 0; i < batches * BATCH; i++) {
        if (rank == 1) {
            counted_post(other);
            /* SYNC turn: as in exchange. */
            atomic_store_explicit(turn, 2 * i + 1, memory_order_release);
            await(turn, 2 * i + 2);
            counted_wait();
        } else {
            await(turn, 2 * i + 1);
            counted_access(other);
            atomic_store_explicit(turn, 2 * i + 2, memory_order_release);
        }
    }
    MPI_Group_free(&world);
    MPI_Group_free(&other);
    MPI_Win_free(&window);
}

/* Two partitions a message at least: the first half of them completes none. */
static void partitions(uint64_t batches, int rank)
{
    enum { PARTITIONS = 2 * BATCH };
    static char data[PARTITIONS];
    MPI_Request request;
    int flag;
    if (rank == 0)
        MPI_Psend_init(data, PARTITIONS, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, PARTITIONS, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (uint64_t batch = 0; batch < batches; batch++) {
        MPI_Start(&request);
        for (int i = 0; rank == 0 && i < PARTITIONS; i++) {
            if (i < BATCH)
                counted_ready(i, request);
            else
                MPI_Pready(i, request);
        }
        for (flag = rank == 0; !flag;)
            MPI_Parrived(request, PARTITIONS - 1, &flag);
        for (int i = 0; rank == 1 && i < BATCH; i++)
            if (!counted_arrived(i, request))
                quit("a partition has not arrived with the last", "MPI_Parrived");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc == 4 ? argv[3] : "";
    uint64_t batches = argc >= 3 ? strtoull(argv[1], NULL, 10) : 0;
    if (batches == 0 || size != 2)
        quit("wants 2 ranks, a number of batches and a file, has", argc > 1 ? argv[1] : "nothing");
    int fd = open(argv[2], O_RDWR);
    _Atomic uint64_t *turn = MAP_FAILED;
    if (fd >= 0)
        turn = mmap(NULL, sizeof *turn, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (turn == MAP_FAILED)
        quit("cannot map", argv[2]);
    int interface = 0;
    while (interface < INTERFACES && strcmp(interfaces[interface].name, argc == 3 ? "c" : what))
        interface++;
    if (interface > 0 && interface < INTERFACES)
        look_up();
    if (interface < INTERFACES)
        exchange(turn, batches, rank, interface);
    else if (test_of(what) < TESTS)
        test(turn, batches, rank, test_of(what));
    else if (!strcmp(what, "start"))
        start(turn, batches, rank);
    else if (!strcmp(what, "post"))
        post(turn, batches, rank);
    else if (!strcmp(what, "partitions"))
        partitions(batches, rank);
    else
        operate(what, batches, rank);
    printf("%d %ld\n", rank, (long)getpid());
    MPI_Finalize();
    return 0;
}
