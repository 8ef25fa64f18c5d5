/* MPI_Info: set, get, get_valuelen, get_string, order of keys, replace, delete, dup, many keys,
 * limits, and the info of a communicator. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    MPI_Info a, b;
    char v[MPI_MAX_INFO_VAL + 1], k[MPI_MAX_INFO_KEY + 1];
    int n = -1, flag = -1, len = -1;
    MPI_Info_create(&a);
    MPI_Info_get_nkeys(a, &n);
    CHECK_INT(n, 0, "keys of a new info");
    MPI_Info_set(a, "file", "data.bin");
    MPI_Info_set(a, "host", "node one");
    MPI_Info_set(a, "Soft", "1:4");
    MPI_Info_get_nkeys(a, &n);
    CHECK_INT(n, 3, "keys after three sets");
    static const char *const keys[] = {"file", "host", "Soft"};
    for (int i = 0; i < 3; i++) {
        MPI_Info_get_nthkey(a, i, k);
        CHECK(strcmp(k, keys[i]) == 0, "key %d is \"%s\"", i, k);
    }
    len = MPI_MAX_INFO_VAL;
    MPI_Info_get_string(a, "host", &len, v, &flag);
    CHECK(flag && strcmp(v, "node one") == 0, "value of host is \"%s\"", v);
    CHECK_INT(len, 9, "buffer length wanted for host");
    len = 5; /* room for four characters and the end */
    MPI_Info_get_string(a, "host", &len, v, &flag);
    CHECK(flag && strcmp(v, "node") == 0 && len == 9, "cut value is \"%s\", length %d", v, len);
    len = 0;
    MPI_Info_get_string(a, "host", &len, NULL, &flag);
    CHECK(flag && len == 9, "length by buflen 0: %d", len);
    len = 10;
    MPI_Info_get_string(a, "none", &len, v, &flag);
    CHECK_INT(flag, 0, "flag for an absent key");
    MPI_Info_get_string(a, "HOST", &len, v, &flag);
    CHECK_INT(flag, 0, "keys are case sensitive: flag");
    MPI_Info_set(a, "file", "other"); /* replaces, keeps the number of keys */
    MPI_Info_get_nkeys(a, &n);
    CHECK_INT(n, 3, "keys after a replacement");
    MPI_Info_dup(a, &b);
    MPI_Info_delete(a, "file");
    MPI_Info_get_nkeys(a, &n);
    CHECK_INT(n, 2, "keys after delete");
    MPI_Info_get_nkeys(b, &n);
    CHECK_INT(n, 3, "keys of the dup");
    len = sizeof v;
    MPI_Info_get_string(b, "file", &len, v, &flag);
    CHECK(flag && strcmp(v, "other") == 0, "value in the dup is \"%s\"", v);
    MPI_Info_free(&b);
    CHECK(b == MPI_INFO_NULL, "handle after Info_free is not null");

    for (int i = 0; i < 1000; i++) {
        snprintf(k, sizeof k, "key %d", i);
        snprintf(v, sizeof v, "value %d", i * i);
        MPI_Info_set(a, k, v);
    }
    MPI_Info_get_nkeys(a, &n);
    CHECK_INT(n, 1002, "keys of a large info");
    len = sizeof v;
    MPI_Info_get_string(a, "key 777", &len, v, &flag);
    CHECK(flag && strcmp(v, "value 603729") == 0, "key 777 is \"%s\"", v);
    /* the longest key and value allowed */
    memset(k, 'k', MPI_MAX_INFO_KEY - 1);
    k[MPI_MAX_INFO_KEY - 1] = 0;
    memset(v, 'v', MPI_MAX_INFO_VAL - 1);
    v[MPI_MAX_INFO_VAL - 1] = 0;
    MPI_Info_set(a, k, v);
    len = 0;
    MPI_Info_get_string(a, k, &len, NULL, &flag);
    CHECK(flag && len == MPI_MAX_INFO_VAL, "length of the longest value: %d", len);
    MPI_Info_free(&a);

    /* a communicator's info is a new object, and setting hints is accepted */
    MPI_Comm c;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Info_create(&a);
    MPI_Info_set(a, "mpi_assert_exact_length", "true");
    MPI_Comm_set_info(c, a);
    MPI_Comm_get_info(c, &b);
    CHECK(b != a && b != MPI_INFO_NULL, "Comm_get_info gives no new object");
    MPI_Info_free(&a);
    MPI_Info_free(&b);
    MPI_Comm_free(&c);
    MPI_Info_get_nkeys(MPI_INFO_ENV, &n);
    CHECK(n >= 0, "keys of MPI_INFO_ENV: %d", n);
    return test_finish();
}
