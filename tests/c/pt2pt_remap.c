/* Buffers whose memory changes hands between messages: the same addresses are unmapped and mapped
 * again, moved away, enlarged, freed and allocated anew, by sender and receiver in turn. A library
 * that remembers where a buffer lies (mapped pages, registrations) must notice every time. Each
 * message carries bytes of its own; 256 KiB (or argv[1]) each. */
#include "test.h"

#include <sys/mman.h>

static size_t n;
static uint64_t number;

static unsigned char *map_at(void *address, size_t bytes)
{
    int fixed = address ? MAP_FIXED : 0;
    void *p = mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (p == MAP_FAILED) {
        perror("pt2pt_remap: mmap");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return p;
}

/* One message each way between ranks 0 and 1. */
static void exchange(unsigned char *out, unsigned char *in, const char *what)
{
    int peer = 1 - test_rank;
    for (int turn = 0; turn < 2; turn++, number++) {
        if (turn == test_rank) {
            test_fill(out, n, number);
            MPI_Send(out, (int)n, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        } else {
            memset(in, 0x5a, n);
            MPI_Recv(in, (int)n, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            size_t good = test_verify(in, n, number);
            CHECK(good == n, "%s, message %llu: byte %zu of %zu differs", what,
                  (unsigned long long)number, good, n);
        }
    }
}

static void use(unsigned char *out, unsigned char *in, const char *what)
{
    for (int i = 0; i < 5; i++)
        exchange(out, in, what);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    n = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t)256 << 10;
    if (test_size != 2) {
        fprintf(stderr, "pt2pt_remap: wants 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    unsigned char *out = map_at(NULL, n), *in = map_at(NULL, n);
    use(out, in, "fresh buffers");

    for (int round = 0; round < 6; round++) {
        /* the same addresses, other memory: of the sender, of the receiver, of both */
        if (round % 3 != 1)
            map_at(out, n);
        if (round % 3 != 0)
            map_at(in, n);
        use(out, in, "memory replaced");
    }

    for (int round = 0; round < 4; round++) {
        /* the pages move elsewhere and others take their place */
        unsigned char **moved = round % 2 ? &out : &in;
        unsigned char *to = map_at(NULL, n);
        if (mremap(*moved, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
            CHECK(0, "mremap refused");
        map_at(*moved, n);
        use(out, in, "pages moved away");
        *moved = to;
        use(out, in, "pages moved here");
    }

    /* half of a buffer replaced */
    map_at(out + n / 2 / 4096 * 4096, 4096);
    map_at(in, 4096);
    use(out, in, "one page replaced");

    /* the allocator gives and takes */
    for (int round = 0; round < 8; round++) {
        unsigned char *a = test_alloc(n + 100), *b = test_alloc(n + 100);
        use(a + round, b + 2 * round, "heap");
        a = realloc(a, 3 * n);
        b = realloc(b, 3 * n);
        if (!a || !b)
            MPI_Abort(MPI_COMM_WORLD, 2);
        use(a + n, b + n / 2, "heap, enlarged");
        free(a);
        free(b);
    }
    munmap(out, n);
    munmap(in, n);
    return test_finish();
}
