/* Non-contiguous data on either side or both, and typed data received as bytes and the reverse,
 * from one element to megabytes: eager, packetized and direct paths all meet iovecs. Argument: the
 * largest number of items (all). */
#include "test.h"

enum { CONTIG, VECTOR, STRUCT, INDEXED, REVERSED, KINDS };
static const char *const kind_name[KINDS] = {"contiguous", "vector", "struct", "indexed",
                                             "reversed"};
/* One "item" of each layout carries ITEM ints; its places in the buffer are listed here. */
enum { ITEM = 6 };

static MPI_Datatype make(int kind)
{
    MPI_Datatype t, u;
    switch (kind) {
    case VECTOR: /* two ints of every five */
        MPI_Type_vector(3, 2, 5, MPI_INT, &u);
        break;
    case STRUCT: {
        int bl[3] = {1, 2, 3};
        MPI_Aint d[3] = {4, 12, 28};
        MPI_Datatype ts[3] = {MPI_INT, MPI_INT, MPI_INT};
        MPI_Type_create_struct(3, bl, d, ts, &u);
        break;
    }
    case INDEXED: {
        int bl[3] = {3, 1, 2}, d[3] = {10, 0, 5};
        MPI_Type_indexed(3, bl, d, MPI_INT, &u);
        break;
    }
    case REVERSED: { /* six single ints, backwards */
        MPI_Aint d[6] = {52, 44, 36, 28, 20, 12};
        MPI_Type_create_hindexed_block(6, 1, d, MPI_INT, &u);
        break;
    }
    default:
        MPI_Type_contiguous(ITEM, MPI_INT, &u);
        break;
    }
    MPI_Type_create_resized(u, 0, 16 * (MPI_Aint)sizeof(int), &t);
    MPI_Type_free(&u);
    MPI_Type_commit(&t);
    return t;
}

/* Position in ints of item value k, written down by hand: independent of the library. */
static const int place[KINDS][ITEM] = {{0, 1, 2, 3, 4, 5},
                                       {0, 1, 5, 6, 10, 11},
                                       {1, 3, 4, 7, 8, 9},
                                       {10, 11, 12, 0, 5, 6},
                                       {13, 11, 9, 7, 5, 3}};

int main(int argc, char **argv)
{
    static const int counts[] = {1, 2, 3, 10, 40, 85, 171, 342, 700, 1366, 2731, 11000, 43691};
    test_init(&argc, &argv);
    test_needs(2);
    int most = argc > 1 ? atoi(argv[1]) : counts[sizeof counts / sizeof *counts - 1];
    int peer = test_rank ^ 1;
    MPI_Datatype types[KINDS];
    for (int k = 0; k < KINDS; k++)
        types[k] = make(k);
    for (size_t c = 0; c < sizeof counts / sizeof *counts && peer < test_size; c++) {
        int n = counts[c];
        if (n > most)
            break;
        size_t ints = (size_t)n * 16;
        int *out = test_alloc(ints * sizeof *out), *in = test_alloc(ints * sizeof *in);
        int *flat = test_alloc((size_t)n * ITEM * sizeof *flat);
        for (int s = 0; s < KINDS; s++)
            for (int r = 0; r < KINDS + 1; r++) { /* r == KINDS: as bytes, contiguous */
                for (size_t i = 0; i < ints; i++) {
                    out[i] = -7;
                    in[i] = -9;
                }
                for (int i = 0; i < n; i++)
                    for (int k = 0; k < ITEM; k++)
                        out[i * 16 + place[s][k]] = test_rank * 1000000 + i * ITEM + k;
                MPI_Status st;
                MPI_Request q;
                int count = -1;
                if (r == KINDS)
                    MPI_Irecv(flat, n * ITEM * (int)sizeof(int), MPI_BYTE, peer, s, MPI_COMM_WORLD,
                              &q);
                else
                    MPI_Irecv(in, n, types[r], peer, s, MPI_COMM_WORLD, &q);
                MPI_Send(out, n, types[s], peer, s, MPI_COMM_WORLD);
                MPI_Wait(&q, &st);
                MPI_Get_count(&st, MPI_INT, &count);
                CHECK_INT(count, n * ITEM, "ints received");
                if (r < KINDS) {
                    MPI_Get_count(&st, types[r], &count);
                    CHECK_INT(count, n, "items received");
                }
                int touched = 0;
                for (int i = 0; i < n; i++)
                    for (int k = 0; k < ITEM; k++) {
                        int got = r == KINDS ? flat[i * ITEM + k] : in[i * 16 + place[r][k]];
                        CHECK(got == peer * 1000000 + i * ITEM + k,
                              "%s to %s, %d items: item %d value %d is %d", kind_name[s],
                              r == KINDS ? "bytes" : kind_name[r], n, i, k, got);
                    }
                if (r < KINDS) {
                    for (size_t i = 0; i < ints; i++)
                        touched += in[i] != -9;
                    CHECK_INT(touched, n * ITEM, "ints changed in the receive buffer");
                }
            }
        free(flat);
        free(in);
        free(out);
    }
    for (int k = 0; k < KINDS; k++)
        MPI_Type_free(&types[k]);
    return test_finish();
}
