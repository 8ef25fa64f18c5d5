/* MPI_Get_count and MPI_Get_elements of whole and partial items, Status_set_*, and packed data:
 * MPI_Pack of several types sent as MPI_PACKED and unpacked, external32 included. */
#include "test.h"

static void elements(void)
{
    MPI_Datatype pair, strct;
    int bl[2] = {1, 2};
    MPI_Aint d[2] = {0, 8};
    MPI_Datatype ts[2] = {MPI_DOUBLE, MPI_INT};
    int buf[64] = {0}, in[64], count, n;
    MPI_Status st;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_create_struct(2, bl, d, ts, &strct);
    MPI_Type_commit(&strct);
    int me = test_rank;
    for (int k = 0; k <= 7; k++) { /* k ints received as pairs */
        MPI_Sendrecv(buf, k, MPI_INT, me, 1, in, 8, pair, me, 1, MPI_COMM_WORLD, &st);
        MPI_Get_count(&st, pair, &count);
        MPI_Get_elements(&st, pair, &n);
        CHECK_INT(count, k % 2 ? MPI_UNDEFINED : k / 2, "Get_count in pairs");
        CHECK_INT(n, k, "Get_elements in pairs");
        MPI_Count big = -1;
        MPI_Get_elements_x(&st, pair, &big);
        CHECK_INT(big, k, "Get_elements_x in pairs");
    }
    /* one and a half {double, int, int}: 4 basic elements */
    struct {
        double x;
        int i[2];
    } s[2] = {{1.5, {2, 3}}, {4.5, {5, 6}}}, r[4];
    MPI_Datatype half;
    int hbl[3] = {1, 2, 1};
    MPI_Aint hd[3] = {0, 8, 16};
    MPI_Datatype hts[3] = {MPI_DOUBLE, MPI_INT, MPI_DOUBLE};
    MPI_Type_create_struct(3, hbl, hd, hts, &half);
    MPI_Type_commit(&half);
    memset(r, 0, sizeof r);
    MPI_Sendrecv(s, 1, half, me, 1, r, 4, strct, me, 1, MPI_COMM_WORLD, &st);
    MPI_Get_count(&st, strct, &count);
    MPI_Get_elements(&st, strct, &n);
    CHECK_INT(count, MPI_UNDEFINED, "Get_count of one and a half structs");
    CHECK_INT(n, 4, "Get_elements of one and a half structs");
    CHECK(r[1].x == 4.5 && r[0].i[1] == 3, "data of one and a half structs differ");
    MPI_Status_set_elements(&st, pair, 6);
    MPI_Get_count(&st, pair, &count);
    MPI_Get_elements(&st, pair, &n);
    CHECK_INT(n, 6, "Get_elements after Status_set_elements");
    CHECK_INT(count, 3, "Get_count after Status_set_elements");
    MPI_Type_free(&half);
    MPI_Type_free(&strct);
    MPI_Type_free(&pair);
}

static void packed(void)
{
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    char buf[400], in[400], text[12] = "hello, mica", got_text[12];
    int a[3] = {test_rank, 2, 3}, got[3], pos = 0, count = -1;
    double x[4] = {0.5, 1.5, 2.5, 3.5}, y[2];
    MPI_Datatype every_other;
    MPI_Status st;
    MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Pack(a, 3, MPI_INT, buf, sizeof buf, &pos, MPI_COMM_WORLD);
    MPI_Pack(x, 1, every_other, buf, sizeof buf, &pos, MPI_COMM_WORLD);
    MPI_Pack(text, 12, MPI_CHAR, buf, sizeof buf, &pos, MPI_COMM_WORLD);
    MPI_Sendrecv(buf, pos, MPI_PACKED, right, 1, in, sizeof in, MPI_PACKED, left, 1, MPI_COMM_WORLD,
                 &st);
    MPI_Get_count(&st, MPI_PACKED, &count);
    CHECK_INT(count, pos, "packed bytes received");
    pos = 0;
    MPI_Unpack(in, count, &pos, got, 3, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(in, count, &pos, y, 2, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Unpack(in, count, &pos, got_text, 12, MPI_CHAR, MPI_COMM_WORLD);
    CHECK_INT(pos, count, "position after all was unpacked");
    CHECK(got[0] == left && got[1] == 2 && got[2] == 3, "ints: %d %d %d", got[0], got[1], got[2]);
    CHECK(y[0] == 0.5 && y[1] == 2.5, "doubles: %g %g", y[0], y[1]);
    CHECK(strcmp(got_text, text) == 0, "text: %.11s", got_text);

    /* packed on one side, typed on the other */
    int mixed[3] = {7, 8, 9}, m_in[3] = {0, 0, 0};
    pos = 0;
    MPI_Pack(mixed, 3, MPI_INT, buf, sizeof buf, &pos, MPI_COMM_WORLD);
    MPI_Sendrecv(buf, pos, MPI_PACKED, right, 2, m_in, 3, MPI_INT, left, 2, MPI_COMM_WORLD, &st);
    CHECK(m_in[0] == 7 && m_in[2] == 9, "packed received as ints: %d %d", m_in[0], m_in[2]);

    /* external32 is big-endian */
    MPI_Aint epos = 0, esize = 0;
    int e = 0x01020304, back = 0;
    MPI_Pack_external_size("external32", 1, MPI_INT, &esize);
    CHECK_INT(esize, 4, "external32 size of an int");
    MPI_Pack_external("external32", &e, 1, MPI_INT, buf, sizeof buf, &epos);
    CHECK(epos == 4 && buf[0] == 1 && buf[1] == 2 && buf[2] == 3 && buf[3] == 4,
          "external32: %d %d %d %d", buf[0], buf[1], buf[2], buf[3]);
    epos = 0;
    MPI_Unpack_external("external32", buf, 4, &epos, &back, 1, MPI_INT);
    CHECK_INT(back, e, "int through external32");
    MPI_Type_free(&every_other);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    elements();
    packed();
    return test_finish();
}
