/* Wrong arguments to collectives and operators. Every rank makes the same mistake, so that none
 * waits for the others. */
#include "test.h"

#define BAD(call, cls) CHECK_CLASS(call, cls, #call)

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    /* mistakes that a library need not notice, and Mica promises to */
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm w;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* Reduce_local has no communicator */
    MPI_Comm_dup(MPI_COMM_WORLD, &w);
    int p = test_size;
    int x = 1, *many = calloc((size_t)p, sizeof *many), *ones = calloc((size_t)p, sizeof *ones);
    double f = 1, g = 0;
    for (int i = 0; i < p; i++)
        ones[i] = 1;
    MPI_Op null = MPI_OP_NULL, sum = MPI_SUM;
    for (int round = 0; round < 10; round++) {
        BAD(MPI_Bcast(&x, 1, MPI_INT, p, w), MPI_ERR_ROOT);
        BAD(MPI_Bcast(&x, 1, MPI_INT, -1, w), MPI_ERR_ROOT);
        BAD(MPI_Reduce(&x, many, 1, MPI_INT, MPI_SUM, p, w), MPI_ERR_ROOT);
        BAD(MPI_Gather(&x, 1, MPI_INT, many, 1, MPI_INT, p, w), MPI_ERR_ROOT);
        BAD(MPI_Scatter(many, 1, MPI_INT, &x, 1, MPI_INT, p, w), MPI_ERR_ROOT);
        BAD(MPI_Bcast(&x, -1, MPI_INT, 0, w), MPI_ERR_COUNT);
        BAD(MPI_Allreduce(&x, many, -1, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT);
        BAD(MPI_Bcast(&x, 1, MPI_DATATYPE_NULL, 0, w), MPI_ERR_TYPE);
        BAD(MPI_Allgather(&x, 1, MPI_INT, many, 1, MPI_DATATYPE_NULL, w), MPI_ERR_TYPE);
        BAD(MPI_Allreduce(&x, many, 1, MPI_INT, null, w), MPI_ERR_OP);
        BAD(MPI_Allreduce(&f, &g, 1, MPI_DOUBLE, MPI_BAND, w), MPI_ERR_OP);
        if (strict)
            BAD(MPI_Reduce(&x, many, 1, MPI_INT, MPI_MAXLOC, 0, w), MPI_ERR_OP);
        BAD(MPI_Scan(&f, &g, 1, MPI_DOUBLE, MPI_BXOR, w), MPI_ERR_OP);
        BAD(MPI_Reduce_local(&f, &g, 1, MPI_DOUBLE, MPI_BOR), MPI_ERR_OP);
        BAD(MPI_Reduce_local(MPI_IN_PLACE, &g, 1, MPI_DOUBLE, MPI_SUM), MPI_ERR_BUFFER);
        BAD(MPI_Reduce_local(&f, MPI_IN_PLACE, 1, MPI_DOUBLE, MPI_SUM), MPI_ERR_BUFFER);
        if (strict) {
            BAD(MPI_Reduce_local(NULL, &g, 1, MPI_DOUBLE, MPI_SUM), MPI_ERR_BUFFER);
            BAD(MPI_Reduce_local(&f, NULL, 1, MPI_DOUBLE, MPI_SUM), MPI_ERR_BUFFER);
        }
        BAD(MPI_Op_free(&sum), MPI_ERR_OP);
        BAD(MPI_Op_free(&null), MPI_ERR_OP);
        BAD(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
        /* and the communicator still works */
        int s = 0;
        int code = MPI_Allreduce(&x, &s, 1, MPI_INT, MPI_SUM, w);
        CHECK_INT(code, MPI_SUCCESS, "Allreduce after errors");
        CHECK_INT(s, p, "sum after errors");
    }
    free(many);
    free(ones);
    MPI_Comm_free(&w);
    return test_finish();
}
