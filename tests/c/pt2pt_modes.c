/* Every send mode against every receive form, 0 B to 8 MiB around each power of two, guard bytes
 * included. Ready sends follow a token that proves the receive is posted. Ranks work in pairs
 * (0,1), (2,3), ...; an odd last rank exchanges with itself. */
#include "test.h"

enum { STANDARD, SYNCHRONOUS, READY, ISTANDARD, ISYNCHRONOUS, IREADY, MODES };
static const char *const mode_name[MODES] = {"Send", "Ssend", "Rsend", "Isend", "Issend", "Irsend"};
enum { GUARD = 64 };

static void do_send(int mode, const void *buf, int n, int peer, int tag)
{
    MPI_Request req;
    MPI_Status st;
    switch (mode) {
    case STANDARD: MPI_Send(buf, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD); return;
    case SYNCHRONOUS: MPI_Ssend(buf, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD); return;
    case READY: MPI_Rsend(buf, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD); return;
    case ISTANDARD: MPI_Isend(buf, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &req); break;
    case ISYNCHRONOUS: MPI_Issend(buf, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &req); break;
    default: MPI_Irsend(buf, n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &req); break;
    }
    MPI_Wait(&req, &st);
    CHECK(req == MPI_REQUEST_NULL, "%s request not null after wait", mode_name[mode]);
}

static void verify(const unsigned char *buf, size_t n, uint64_t seed, const MPI_Status *st,
                   int peer, int tag, int mode)
{
    int count = -1;
    MPI_Get_count(st, MPI_BYTE, &count);
    CHECK_INT(count, n, "MPI_Get_count");
    CHECK_INT(st->MPI_SOURCE, peer, "MPI_SOURCE");
    CHECK_INT(st->MPI_TAG, tag, "MPI_TAG");
    size_t bad = test_verify(buf, n, seed);
    CHECK(bad == n, "%s of %zu bytes: byte %zu differs", mode_name[mode], n, bad);
    size_t guard = test_all(buf + n, GUARD, 0xA5);
    CHECK(guard == GUARD, "%s of %zu bytes: byte %zu past the end overwritten", mode_name[mode], n,
          guard);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    size_t max = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t)8 << 20;
    size_t sizes[128];
    int nsizes = test_sizes(sizes, 128, max);
    int peer = test_rank ^ 1;
    if (peer >= test_size)
        peer = test_rank;
    int first = test_rank < peer;
    unsigned char *out = test_alloc(max + 2), *in = test_alloc(max + 2 + GUARD);
    for (int s = 0; s < nsizes; s++) {
        size_t n = sizes[s];
        for (int mode = 0; mode < MODES; mode++) {
            int tag = 100 + s * MODES + mode;
            uint64_t mine = (uint64_t)test_rank * 7919 + (uint64_t)tag;
            uint64_t theirs = (uint64_t)peer * 7919 + (uint64_t)tag;
            int ready = mode == READY || mode == IREADY;
            MPI_Status st;
            test_fill(out, n, mine);
            memset(in, 0xA5, n + GUARD);
            if (peer == test_rank) { /* itself: only a posted receive lets a large send end */
                MPI_Request r;
                MPI_Irecv(in, (int)n + GUARD, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &r);
                do_send(mode, out, (int)n, peer, tag);
                MPI_Wait(&r, &st);
                verify(in, n, theirs, &st, peer, tag, mode);
                continue;
            }
            for (int turn = 0; turn < 2; turn++) {
                if (first == (turn == 0)) {
                    if (ready)
                        MPI_Recv(NULL, 0, MPI_BYTE, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    do_send(mode, out, (int)n, peer, tag);
                } else if (ready) {
                    MPI_Request r;
                    MPI_Irecv(in, (int)n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &r);
                    MPI_Send(NULL, 0, MPI_BYTE, peer, 7, MPI_COMM_WORLD);
                    MPI_Wait(&r, &st);
                    verify(in, n, theirs, &st, peer, tag, mode);
                } else { /* wildcards in turn, and a buffer larger than the message */
                    int source = s % 2 ? MPI_ANY_SOURCE : peer;
                    int want = s % 3 ? tag : MPI_ANY_TAG;
                    int room = (int)n + (s % 5 ? 0 : GUARD);
                    MPI_Recv(in, room, MPI_BYTE, source, want, MPI_COMM_WORLD, &st);
                    verify(in, n, theirs, &st, peer, tag, mode);
                }
            }
        }
    }
    free(out);
    free(in);
    return test_finish();
}
