/* Messages that are no whole number of the receive's elements: what arrived is in the buffer and
 * nothing else is written, MPI_Get_count and MPI_Get_elements say MPI_UNDEFINED, and only a message
 * that is too long is an error. */
#include "test.h"

enum { CHARS = 9 };

static void check(const unsigned char *got, int sent, int room, const MPI_Status *status, int code, MPI_Datatype type, int size)
{
    int count = -7, elements = -7, chars = -7, arrived = sent < room ? sent : room;
    if (sent > room)
        CHECK_CLASS(code, MPI_ERR_TRUNCATE, "a message that is too long");
    else
        CHECK_INT(code, MPI_SUCCESS, "a message that fits");
    MPI_Get_count(status, MPI_CHAR, &chars);
    CHECK_INT(chars, arrived, "characters");
    MPI_Get_count(status, type, &count);
    CHECK_INT(count, arrived % size ? MPI_UNDEFINED : arrived / size, "count");
    MPI_Get_elements(status, type, &elements);
    CHECK_INT(elements, arrived % 4 ? MPI_UNDEFINED : arrived / 4, "elements");
    if (got)
        for (int i = 0; i < 4 * CHARS; i++)
            CHECK_INT(got[i], i < arrived ? 'a' + i : 0x3d, "a byte of the buffer");
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int sent = 0; sent <= CHARS && test_rank < 2; sent++)
        for (int room = 0; room <= 2; room++)
            if (test_rank == 0) {
                MPI_Send("abcdefghi", sent, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
                MPI_Ssend("abcdefghi", sent, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
                MPI_Send("abcdefghi", sent, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
            } else {
                unsigned char got[4 * CHARS];
                MPI_Status status;
                MPI_Request request;
                memset(got, 0x3d, sizeof got);
                int code = MPI_Recv(got, room, MPI_INT, 0, 0, MPI_COMM_WORLD, &status);
                check(got, sent, 4 * room, &status, code, MPI_INT, 4);
                memset(got, 0x3d, sizeof got);
                MPI_Irecv(got, room, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
                code = MPI_Wait(&request, &status);
                check(got, sent, 4 * room, &status, code, MPI_INT, 4);
                code = MPI_Recv(got, room, pair, 0, 2, MPI_COMM_WORLD, &status);
                check(NULL, sent, 8 * room, &status, code, pair, 8);
            }
    MPI_Type_free(&pair);
    return test_finish();
}
