/* MPI_Cart_create with a dimension of length 0: the grid has no processes, and all get
 * MPI_COMM_NULL, as with MPICH and Intel MPI. A negative length is an error. */
#include "test.h"

int main(int argc, char **argv)
{
    static const int grids[][3] = {{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {7, 0, 0}, {1, 1, 0}};
    int periods[3] = {0, 1, 0}, negative[2] = {0, -1};
    MPI_Comm cart;
    test_init(&argc, &argv);
    for (int i = 0; i < 5; i++)
        for (int n = 1; n <= 3; n++) {
            int empty = 0, place = 0;
            for (int d = 0; d < n; d++)
                empty |= grids[i][d] == 0;
            if (!empty)
                continue;
            cart = MPI_COMM_WORLD;
            MPI_Cart_create(MPI_COMM_WORLD, n, grids[i], periods, i % 2, &cart);
            CHECK(cart == MPI_COMM_NULL, "grid %d of %d dimensions has a communicator", i, n);
            MPI_Cart_map(MPI_COMM_WORLD, n, grids[i], periods, &place);
            CHECK_INT(place, MPI_UNDEFINED, "the place in a grid without processes");
        }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, negative, periods, 0, &cart), MPI_ERR_DIMS, "a negative length");
    return test_finish();
}
