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
            for (size_t i = 0; i < (size_t)n; i++)
                b[i] = (unsigned char)(i * 167 >> 5);
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
            size_t i = 0;
            while (i < (size_t)n && b[i] == (unsigned char)(i * 167 >> 5))
                i++;
            CHECK(i == (size_t)n, "byte %zu of %lld differs", i, (long long)n);
        }
        free(b);
    }
    return test_finish();
}
