/* The profiling interface: this program's own MPI_Send, MPI_Isend, MPI_Recv and MPI_Wait count and
 * call the PMPI names. The library's inside (collectives, Sendrecv, dup) must not call them. */
#include "test.h"

static int sends, isends, recvs, waits;

int MPI_Send(const void *buf, int count, MPI_Datatype t, int dest, int tag, MPI_Comm c)
{
    sends++;
    return PMPI_Send(buf, count, t, dest, tag, c);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype t, int dest, int tag, MPI_Comm c,
              MPI_Request *r)
{
    isends++;
    return PMPI_Isend(buf, count, t, dest, tag, c, r);
}

int MPI_Recv(void *buf, int count, MPI_Datatype t, int src, int tag, MPI_Comm c, MPI_Status *st)
{
    recvs++;
    return PMPI_Recv(buf, count, t, src, tag, c, st);
}

int MPI_Wait(MPI_Request *r, MPI_Status *st)
{
    waits++;
    return PMPI_Wait(r, st);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    int x = test_rank, y = -1, sum = 0;
    int *all = test_alloc(sizeof(int) * (size_t)test_size);
    int *turned = test_alloc(sizeof(int) * (size_t)test_size);
    MPI_Comm c;
    MPI_Sendrecv(&x, 1, MPI_INT, right, 0, &y, 1, MPI_INT, left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_INT(y, left, "value by Sendrecv");
    MPI_Bcast(&y, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(&x, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(all, 1, MPI_INT, turned, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_free(&c);
    CHECK(sends == 0 && isends == 0 && recvs == 0 && waits == 0,
          "the library called the program's MPI_Send %d, Isend %d, Recv %d, Wait %d times", sends,
          isends, recvs, waits);
    /* the program's own calls are all seen, and still work */
    MPI_Request r;
    MPI_Isend(&x, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &r);
    MPI_Recv(&y, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK_INT(y, left, "value by the overridden calls");
    if (test_size > 1) {
        if (test_rank == 0)
            MPI_Send(&x, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        else if (test_rank == 1)
            MPI_Recv(&y, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    CHECK_INT(sends, test_size > 1 && test_rank == 0, "MPI_Send calls seen");
    CHECK_INT(isends, 1, "MPI_Isend calls seen");
    CHECK_INT(recvs, 1 + (test_size > 1 && test_rank == 1), "MPI_Recv calls seen");
    CHECK_INT(waits, 1, "MPI_Wait calls seen");
    free(turned);
    free(all);
    return test_finish();
}
