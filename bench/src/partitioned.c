/* What a partition costs in partitioned communication: each of two ranks sends 4,096 partitions to
 * the other and receives as many, of BYTES (default 8) each. In microseconds for one partition, the
 * median of 15 batches.
 *
 * "partitioned ready": MPI_Pready, one by one and in order.
 *
 * "partitioned arrived": MPI_Parrived of a partition that has arrived.
 *
 * "partitioned": all of it, from MPI_Start to MPI_Wait: marking, the way, and MPI_Parrived of each
 * partition, repeated until it says so.
 *
 * Arguments: sizes of a partition. */
#include "bench_mpi.h"

enum { READY, ARRIVED, ALL, PARTS };

static const char *const names[PARTS] = {"partitioned ready", "partitioned arrived", "partitioned"};

typedef struct {
    int part, partitions;
    size_t bytes;
    char *out, *in;
    MPI_Request send, receive;
    long number;
} Exchange;

static double exchange(void *arg, long n)
{
    Exchange *x = arg;
    double counted = 0;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < n; i++, x->number++) {
        for (int p = 0; p < x->partitions; p++)
            bench_stamp(x->out + (size_t)p * x->bytes, x->bytes, x->number * 7 + p);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Start(&x->receive);
        MPI_Start(&x->send);
        double ready = MPI_Wtime();
        for (int p = 0; p < x->partitions; p++)
            MPI_Pready(p, x->send);
        double marked = MPI_Wtime();
        for (int p = 0; p < x->partitions; p++)
            for (int flag = 0; !flag;)
                MPI_Parrived(x->receive, p, &flag);
        double arrived = MPI_Wtime();
        if (x->part == ARRIVED)
            for (int p = 0; p < x->partitions; p++) {
                int flag;
                MPI_Parrived(x->receive, p, &flag);
                if (!flag)
                    bench_die("partition %d has arrived, and then not", p);
            }
        double asked = MPI_Wtime();
        MPI_Wait(&x->send, MPI_STATUS_IGNORE);
        MPI_Wait(&x->receive, MPI_STATUS_IGNORE);
        double end = MPI_Wtime();
        counted += x->part == READY ? marked - ready : x->part == ARRIVED ? asked - arrived : end - start;
        for (int p = 0; p < x->partitions; p++)
            bench_check(x->in + (size_t)p * x->bytes, x->bytes, x->number * 7 + p);
    }
    return counted;
}

static void measure(int rank, size_t bytes, int partitions)
{
    size_t all = (size_t)partitions * bytes;
    Exchange x = {0, partitions, bytes, bench_alloc(all, 0), bench_alloc(all, 0), 0, 0, 0};
    double batch[BATCHES];
    MPI_Psend_init(x.out, partitions, (MPI_Count)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &x.send);
    MPI_Precv_init(x.in, partitions, (MPI_Count)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &x.receive);
    for (x.part = 0; x.part < PARTS; x.part++) {
        long n = bench_measure(exchange, &x, 0.03, batch);
        for (int b = 0; b < BATCHES; b++)
            batch[b] *= 1e6 / partitions;
        if (rank == 0)
            bench_print(names[x.part], (long)bytes, 2, batch, "us", n);
    }
    MPI_Request_free(&x.send);
    MPI_Request_free(&x.receive);
    free(x.out);
    free(x.in);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        bench_die("needs 2 ranks, has %d", size);
    for (int i = 1; i < argc; i++)
        measure(rank, (size_t)bench_bytes(argv[i]), 4096);
    if (argc == 1)
        measure(rank, 8, 4096);
    MPI_Finalize();
    return 0;
}
