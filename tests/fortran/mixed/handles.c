/* What handles.F90 calls: each function says what it finds wrong, and returns in how many ways. */
#include <mpi.h>
#include <stdio.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "handles.c:%d: %s\n", __LINE__, #condition);                           \
            failed++;                                                                              \
        }                                                                                          \
    } while (0)

int c_comm_(MPI_Fint *comm, MPI_Fint *rank, MPI_Fint *size)
{
    int failed = 0, own_rank = -1, own_size = -1;
    MPI_Comm in_c = MPI_Comm_f2c(*comm);
    MPI_Comm_rank(in_c, &own_rank);
    MPI_Comm_size(in_c, &own_size);
    CHECK(own_rank == *rank && own_size == *size);
    CHECK(MPI_Comm_c2f(in_c) == *comm);
    CHECK(in_c != MPI_COMM_WORLD);
    return failed;
}

int c_datatype_(MPI_Fint *derived, MPI_Fint *predefined)
{
    int failed = 0, size = -1;
    MPI_Aint lb, extent;
    MPI_Type_size(MPI_Type_f2c(*derived), &size);
    CHECK(size == 12);
    MPI_Type_get_extent(MPI_Type_f2c(*derived), &lb, &extent);
    CHECK(extent == 20);
    CHECK(MPI_Type_f2c(*predefined) == MPI_DOUBLE_PRECISION);
    return failed;
}

int c_op_(MPI_Fint *comm, MPI_Fint *op, MPI_Fint *size)
{
    int failed = 0, sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_Op_f2c(*op), MPI_Comm_f2c(*comm));
    CHECK(sum == *size);
    return failed;
}

int c_wait_(MPI_Fint *request, MPI_Fint *status)
{
    int failed = 0;
    MPI_Status in_c;
    MPI_Request own = MPI_Request_f2c(*request);
    CHECK(MPI_Wait(&own, &in_c) == MPI_SUCCESS);
    CHECK(own == MPI_REQUEST_NULL);
    *request = MPI_Request_c2f(own);
    CHECK(MPI_Status_c2f(&in_c, status) == MPI_SUCCESS);
    return failed;
}

int c_status_(MPI_Fint *status)
{
    int failed = 0, count = -1;
    MPI_Status in_c;
    CHECK(MPI_Status_f2c(status, &in_c) == MPI_SUCCESS);
    CHECK(in_c.MPI_TAG == 5);
    MPI_Get_count(&in_c, MPI_INT, &count);
    CHECK(count == 1);
    return failed;
}

int c_ignored_(MPI_Fint *status, MPI_Fint *statuses, MPI_Fint *other)
{
    int failed = 0;
    CHECK(status == MPI_F_STATUS_IGNORE);
    CHECK(statuses == MPI_F_STATUSES_IGNORE);
    CHECK(other != MPI_F_STATUS_IGNORE);
    return failed;
}

int c_file_(MPI_Fint *file)
{
    int failed = 0, mode = 0;
    MPI_File in_c = MPI_File_f2c(*file);
    CHECK(MPI_File_get_amode(in_c, &mode) == MPI_SUCCESS);
    CHECK(mode == MPI_MODE_RDONLY);
    CHECK(MPI_File_c2f(in_c) == *file);
    return failed;
}

int c_attribute_(MPI_Fint *comm, MPI_Fint *keyval, MPI_Fint *value)
{
    int failed = 0, found = 0;
    MPI_Aint *attribute = NULL;
    MPI_Comm_get_attr(MPI_Comm_f2c(*comm), *keyval, &attribute, &found);
    CHECK(found && *attribute == *value);
    return failed;
}

void c_keep_attribute_(MPI_Fint *comm, MPI_Fint *keyval)
{
    MPI_Comm_set_attr(MPI_Comm_f2c(*comm), *keyval, (void *)12345);
}
