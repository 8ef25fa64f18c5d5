/* 8 MiB (or argv[1] bytes) between all pairs at once, in both directions: must not deadlock however
 * few cells and ring slots there are. Sends are posted first, then receives, then one Waitall;
 * then receives by wildcard while all sends are blocking-synchronous in a cycle. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t)8 << 20;
    int p = test_size;
    unsigned char *out = test_alloc(n), *in = test_alloc(n * (size_t)p);
    MPI_Request *r = test_alloc(2 * (size_t)p * sizeof *r);
    test_fill(out, n, (uint64_t)test_rank);
    for (int order = 0; order < 2; order++) {
        memset(in, 0, n * (size_t)p);
        for (int k = 0; k < 2; k++)
            for (int d = 0; d < p; d++) {
                int peer = (test_rank + d) % p;
                if ((k == 0) == (order == 0))
                    MPI_Isend(out, (int)n, MPI_BYTE, peer, order, MPI_COMM_WORLD, &r[k * p + d]);
                else
                    MPI_Irecv(in + n * (size_t)peer, (int)n, MPI_BYTE, peer, order, MPI_COMM_WORLD,
                              &r[k * p + d]);
            }
        MPI_Waitall(2 * p, r, MPI_STATUSES_IGNORE);
        for (int s = 0; s < p; s++) {
            size_t bad = test_verify(in + n * (size_t)s, n, (uint64_t)s);
            CHECK(bad == n, "order %d: from %d: byte %zu of %zu differs", order, s, bad, n);
        }
    }
    /* a cycle of synchronous sends, receives posted before */
    int right = (test_rank + 1) % p, left = (test_rank + p - 1) % p;
    MPI_Irecv(in, (int)n, MPI_BYTE, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &r[0]);
    MPI_Ssend(out, (int)n, MPI_BYTE, right, 9, MPI_COMM_WORLD);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    CHECK(test_verify(in, n, (uint64_t)left) == n, "cycle of Ssend: data differ");
    free(r);
    free(in);
    free(out);
    return test_finish();
}
