/* More blocks than any memory can hold: an error of the call, not the end of the process. No
 * element of the arrays is read, since their copy cannot be had. */
#include "test.h"

int main(int argc, char **argv)
{
    static const MPI_Count many[] = {(MPI_Count)1 << 45, (MPI_Count)1 << 59, ((MPI_Count)1 << 62) - 1};
    MPI_Count one[1] = {1}, at[1] = {0};
    MPI_Datatype types[1] = {MPI_INT}, t = MPI_DATATYPE_NULL;
    test_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++) {
        MPI_Count n = many[i];
        CHECK_CLASS(MPI_Type_create_struct_c(n, one, at, types, &t), MPI_ERR_NO_MEM, "MPI_Type_create_struct_c");
        CHECK_CLASS(MPI_Type_indexed_c(n, one, at, MPI_INT, &t), MPI_ERR_NO_MEM, "MPI_Type_indexed_c");
        CHECK_CLASS(MPI_Type_create_hindexed_c(n, one, at, MPI_INT, &t), MPI_ERR_NO_MEM, "MPI_Type_create_hindexed_c");
        CHECK_CLASS(MPI_Type_create_indexed_block_c(n, 1, at, MPI_INT, &t), MPI_ERR_NO_MEM,
                    "MPI_Type_create_indexed_block_c");
        CHECK_CLASS(MPI_Type_create_hindexed_block_c(n, 1, at, MPI_INT, &t), MPI_ERR_NO_MEM,
                    "MPI_Type_create_hindexed_block_c");
        CHECK(t == MPI_DATATYPE_NULL, "a call that failed has made a datatype");
    }
    return test_finish();
}
