/* A tool for any program of the standard ABI, a shared library to be loaded before MPI's: counts calls by the profiling interface, and
 * what they say of messages; rank 0 writes the sums of all ranks to standard error (tests/jobs/standard_abi.rs). */
#include <mpi.h>
#include <stdio.h>

enum { SEND, ISEND, RECV, IRECV, SENDRECV, WAIT, WAITALL, ALLREDUCE, COMM_DUP, COMM_SPLIT, PUT, WIN_ALLOCATE, KINDS };

static const char *const names[KINDS] = {"Send", "Isend", "Recv", "Irecv", "Sendrecv", "Wait", "Waitall", "Allreduce",
                                         "Comm_dup", "Comm_split", "Put", "Win_allocate"};
static long long counts[KINDS], bytes;

/* MPI_NAME(PARAMETERS) counts, and calls PMPI_NAME(ARGUMENTS). */
#define COUNT(kind, name, parameters, arguments) \
    int MPI_##name parameters                    \
    {                                            \
        counts[kind]++;                          \
        return PMPI_##name arguments;            \
    }

/* Those that send count bytes too. */
#define COUNT_SENT(kind, name, parameters, arguments) \
    int MPI_##name parameters                   \
    {                                           \
        int width = 0;                          \
        if (t != MPI_DATATYPE_NULL)             \
            PMPI_Type_size(t, &width);          \
        if (dest >= 0 && n > 0)                 \
            bytes += (long long)width * n;      \
        counts[kind]++;                         \
        return PMPI_##name arguments;           \
    }

COUNT_SENT(SEND, Send, (const void *b, int n, MPI_Datatype t, int dest, int tag, MPI_Comm c), (b, n, t, dest, tag, c))
COUNT_SENT(ISEND, Isend, (const void *b, int n, MPI_Datatype t, int dest, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, dest, tag, c, r))
COUNT(RECV, Recv, (void *b, int n, MPI_Datatype t, int source, int tag, MPI_Comm c, MPI_Status *s), (b, n, t, source, tag, c, s))
COUNT(IRECV, Irecv, (void *b, int n, MPI_Datatype t, int source, int tag, MPI_Comm c, MPI_Request *r), (b, n, t, source, tag, c, r))
COUNT_SENT(SENDRECV, Sendrecv,
     (const void *b, int n, MPI_Datatype t, int dest, int tag, void *b2, int n2, MPI_Datatype t2, int source, int tag2, MPI_Comm c,
      MPI_Status *s),
     (b, n, t, dest, tag, b2, n2, t2, source, tag2, c, s))
COUNT(WAIT, Wait, (MPI_Request * r, MPI_Status *s), (r, s))
COUNT(WAITALL, Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
COUNT(ALLREDUCE, Allreduce, (const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c), (in, out, n, t, op, c))
COUNT(COMM_DUP, Comm_dup, (MPI_Comm c, MPI_Comm *made), (c, made))
COUNT(COMM_SPLIT, Comm_split, (MPI_Comm c, int colour, int key, MPI_Comm *made), (c, colour, key, made))
COUNT(PUT, Put,
      (const void *b, int n, MPI_Datatype t, int target, MPI_Aint at, int n2, MPI_Datatype t2, MPI_Win w),
      (b, n, t, target, at, n2, t2, w))
COUNT(WIN_ALLOCATE, Win_allocate, (MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, void *base, MPI_Win *w), (n, unit, i, c, base, w))

int MPI_Finalize(void)
{
    long long sums[KINDS + 1] = {0};
    int rank = -1;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(counts, sums, KINDS, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Reduce(&bytes, &sums[KINDS], 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < KINDS; i++)
        fprintf(stderr, "tool: %s %lld\n", names[i], sums[i]);
    if (rank == 0)
        fprintf(stderr, "tool: bytes %lld\n", sums[KINDS]);
    return PMPI_Finalize();
}
