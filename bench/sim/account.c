/* What a program does in MPI, as the simulated clock sees it (leon-2009, 5.3, Figure 5.6, by mpiP):
 * linked into a program, replaces MPI's functions by the profiling interface. Counted between
 * MPI_Pcontrol(1) and MPI_Pcontrol(0): of each function the calls, the seconds and the bytes sent;
 * and the seconds of the region. At MPI_Finalize rank 0 prints one line of JSON for each function
 * that was called, with the sums over all ranks:
 *
 *     {"account": "Alltoall", "calls": 12, "seconds": 0.0041, "bytes": 786432}
 *     {"account": "region", "calls": 4, "seconds": 0.0312, "bytes": 0}
 *
 * Functions that no program of the experiments calls in its region are not counted. */
#include <mpi.h>
#include <stdio.h>

enum call {
    REGION,
    SEND,
    ISEND,
    RECV,
    IRECV,
    WAIT,
    WAITALL,
    SENDRECV,
    BARRIER,
    BCAST,
    REDUCE,
    ALLREDUCE,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    CALLS
};

static const char *const names[CALLS] = {
    "region",  "Send",  "Isend",  "Recv",      "Irecv",     "Wait",       "Waitall",  "Sendrecv",
    "Barrier", "Bcast", "Reduce", "Allreduce", "Allgather", "Allgatherv", "Alltoall", "Alltoallv"};

/* Of each call: calls, seconds, bytes. */
static double sums[CALLS][3];
static int is_inside;

static void add(enum call call, double start, double bytes)
{
    if (!is_inside)
        return;
    sums[call][0] += 1;
    sums[call][1] += PMPI_Wtime() - start;
    sums[call][2] += bytes;
}

static double bytes_of(int count, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    return (double)count * size;
}

/* Runs the real function, counts it and returns its result. */
#define COUNTED(call, bytes, function, ...)       \
    do {                                          \
        double start = PMPI_Wtime();              \
        int result = P##function(__VA_ARGS__);    \
        add(call, start, bytes);                  \
        return result;                            \
    } while (0)

int MPI_Pcontrol(const int level, ...)
{
    static double start;
    if (level) {
        is_inside = 1;
        start = PMPI_Wtime();
    } else {
        add(REGION, start, 0);
        is_inside = 0;
    }
    return PMPI_Pcontrol(level);
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    COUNTED(SEND, bytes_of(count, type), MPI_Send, buf, count, type, to, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    COUNTED(ISEND, bytes_of(count, type), MPI_Isend, buf, count, type, to, tag, comm, request);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    COUNTED(RECV, 0, MPI_Recv, buf, count, type, from, tag, comm, status);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    COUNTED(IRECV, 0, MPI_Irecv, buf, count, type, from, tag, comm, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    COUNTED(WAIT, 0, MPI_Wait, request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    COUNTED(WAITALL, 0, MPI_Waitall, count, requests, statuses);
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                 void *in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status *status)
{
    COUNTED(SENDRECV, bytes_of(out_count, out_type), MPI_Sendrecv, out, out_count, out_type, to,
            out_tag, in, in_count, in_type, from, in_tag, comm, status);
}

int MPI_Barrier(MPI_Comm comm)
{
    COUNTED(BARRIER, 0, MPI_Barrier, comm);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    COUNTED(BCAST, bytes_of(count, type), MPI_Bcast, buf, count, type, root, comm);
}

int MPI_Reduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm)
{
    COUNTED(REDUCE, bytes_of(count, type), MPI_Reduce, out, in, count, type, op, root, comm);
}

int MPI_Allreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    COUNTED(ALLREDUCE, bytes_of(count, type), MPI_Allreduce, out, in, count, type, op, comm);
}

int MPI_Allgather(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                  MPI_Datatype in_type, MPI_Comm comm)
{
    COUNTED(ALLGATHER, bytes_of(out_count, out_type), MPI_Allgather, out, out_count, out_type, in,
            in_count, in_type, comm);
}

int MPI_Allgatherv(const void *out, int out_count, MPI_Datatype out_type, void *in,
                   const int in_counts[], const int places[], MPI_Datatype in_type, MPI_Comm comm)
{
    COUNTED(ALLGATHERV, bytes_of(out_count, out_type), MPI_Allgatherv, out, out_count, out_type, in,
            in_counts, places, in_type, comm);
}

int MPI_Alltoall(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count,
                 MPI_Datatype in_type, MPI_Comm comm)
{
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    COUNTED(ALLTOALL, ranks * bytes_of(out_count, out_type), MPI_Alltoall, out, out_count, out_type,
            in, in_count, in_type, comm);
}

int MPI_Alltoallv(const void *out, const int out_counts[], const int out_places[],
                  MPI_Datatype out_type, void *in, const int in_counts[], const int in_places[],
                  MPI_Datatype in_type, MPI_Comm comm)
{
    int ranks;
    double elements = 0;
    PMPI_Comm_size(comm, &ranks);
    for (int r = 0; r < ranks; r++)
        elements += out_counts[r];
    COUNTED(ALLTOALLV, elements * bytes_of(1, out_type), MPI_Alltoallv, out, out_counts, out_places,
            out_type, in, in_counts, in_places, in_type, comm);
}

int MPI_Finalize(void)
{
    double all[CALLS][3];
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(sums, all, 3 * CALLS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int call = 0; rank == 0 && call < CALLS; call++)
        if (all[call][0] > 0)
            printf("{\"account\": \"%s\", \"calls\": %.0f, \"seconds\": %.9g, \"bytes\": %.0f}\n",
                   names[call], all[call][0], all[call][1], all[call][2]);
    return PMPI_Finalize();
}
