/* One message above 2 GiB: MPI_Send_c, a count above INT_MAX, a single direct copy moves at most
 * 2 GiB - 4 KiB. Both buffers are written page-wise, so it needs memory: skipped below 6 GiB. */
#include "test.h"

static long long available_kib(void)
{
    char line[256];
    long long kib = -1;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

/* The bytes repeat after this many, which is no power of two: a part that is displaced is seen. */
enum { PERIOD = 1048573 };

/* Fills `n` bytes, or compares them: returns how many are right from the first on. */
static MPI_Count periods(unsigned char *b, MPI_Count n, int fill)
{
    static unsigned char period[PERIOD];
    test_fill(period, PERIOD, 1);
    for (MPI_Count at = 0; at < n; at += PERIOD) {
        size_t part = n - at < PERIOD ? (size_t)(n - at) : PERIOD;
        if (fill)
            memcpy(b + at, period, part);
        else if (memcmp(b + at, period, part) != 0)
            return at + (MPI_Count)test_verify(b + at, part, 1);
    }
    return n;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    long long kib = test_rank == 0 ? available_kib() : 0;
    MPI_Bcast(&kib, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    if (kib >= 0 && kib < 6LL << 20)
        return test_skip("less than 6 GiB of memory available");
    const MPI_Count n = ((MPI_Count)1 << 31) + 4097; /* above INT_MAX, odd */
    if (test_rank < 2) {
        unsigned char *b = test_alloc((size_t)n);
        if (test_rank == 0) {
            periods(b, n, 1);
            MPI_Send_c(b, n, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
        } else {
            MPI_Status st;
            MPI_Count count = -1;
            int small = 0;
            memset(b, 0xEE, (size_t)n);
            MPI_Recv_c(b, n, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &st);
            MPI_Get_count_c(&st, MPI_BYTE, &count);
            CHECK_INT(count, n, "MPI_Get_count_c");
            MPI_Get_count(&st, MPI_BYTE, &small);
            CHECK_INT(small, MPI_UNDEFINED, "MPI_Get_count of more than INT_MAX");
            MPI_Count right = periods(b, n, 0);
            CHECK(right == n, "byte %lld of %lld differs", (long long)right, (long long)n);
        }
        free(b);
    }
    return test_finish();
}
