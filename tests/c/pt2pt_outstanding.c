/* Thousands of requests outstanding at once between all pairs, small and large mixed, completed by
 * Waitsome; and receives posted in an order unlike that of the sends. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    enum { PER = 400 };
    int total = PER * test_size;
    MPI_Request *r = test_alloc((size_t)total * 2 * sizeof *r);
    size_t *len = test_alloc(PER * sizeof *len), *off = test_alloc((PER + 1) * sizeof *off);
    off[0] = 0;
    for (int i = 0; i < PER; i++) {
        len[i] = i % 50 == 49 ? 150000 : i % 10 == 9 ? 9000 : (size_t)(i * 3 % 700);
        off[i + 1] = off[i] + len[i];
    }
    unsigned char *out = test_alloc(off[PER] * (size_t)test_size);
    unsigned char *in = test_alloc(off[PER] * (size_t)test_size);
    memset(in, 0, off[PER] * (size_t)test_size);
    int k = 0;
    for (int p = 0; p < test_size; p++)
        for (int i = PER - 1; i >= 0; i--)
            MPI_Irecv(in + off[PER] * (size_t)p + off[i], (int)len[i], MPI_BYTE, p, i,
                      MPI_COMM_WORLD, &r[k++]);
    for (int i = 0; i < PER; i++)
        for (int d = 0; d < test_size; d++) {
            int p = (test_rank + d) % test_size;
            unsigned char *b = out + off[PER] * (size_t)p + off[i];
            test_fill(b, len[i], (uint64_t)((test_rank * test_size + p) * PER + i));
            MPI_Isend(b, (int)len[i], MPI_BYTE, p, i, MPI_COMM_WORLD, &r[k++]);
        }
    int left = k, *idx = test_alloc((size_t)k * sizeof *idx);
    while (left > 0) {
        int n = 0;
        MPI_Waitsome(k, r, &n, idx, MPI_STATUSES_IGNORE);
        CHECK(n > 0 && n <= left, "Waitsome says %d of %d", n, left);
        left -= n;
    }
    for (int p = 0; p < test_size; p++)
        for (int i = 0; i < PER; i++)
            CHECK(test_verify(in + off[PER] * (size_t)p + off[i], len[i],
                              (uint64_t)((p * test_size + test_rank) * PER + i)) == len[i],
                  "message %d from %d differs", i, p);
    free(idx);
    free(in);
    free(out);
    free(off);
    free(len);
    free(r);
    return test_finish();
}
