/* Bad arguments (datatypes, packing, messages and collectives before they begin, operators, groups,
 * communicators, attributes, error codes, memory, info): each is refused, with its class and, in
 * the error's text, its name and value. Without "strict" any error will do: the standard fixes few
 * of the classes and none of the texts. */
#include "test.h"

static int strict;

static void refused(int line, int code, int class, const char *says, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int got = -1, len;
    CHECK(code != MPI_SUCCESS, "line %d: no error: %s", line, call);
    if (!strict || code == MPI_SUCCESS)
        return;
    MPI_Error_class(code, &got);
    MPI_Error_string(code, text, &len);
    CHECK(got == class, "line %d: class %d, not %d: %s: %s", line, got, class, call, text);
    CHECK(strstr(text, says), "line %d: \"%s\" does not say \"%s\": %s", line, text, says, call);
}

#define REFUSED(call, class, says) refused(__LINE__, call, class, says, #call)

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static void datatypes(void)
{
    MPI_Datatype t = MPI_DATATYPE_NULL, bad[1] = {MPI_DATATYPE_NULL}, ints[1] = {MPI_INT};
    int one[1] = {1}, minus[1] = {-1}, zero[1] = {0}, two[1] = {2}, n, i[4], cyclic[1] = {MPI_DISTRIBUTE_CYCLIC};
    int none[1] = {MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Aint at[1] = {0}, lb, extent;
    REFUSED(MPI_Type_contiguous(-1, MPI_INT, &t), MPI_ERR_COUNT, "count = -1");
    REFUSED(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &t), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_vector(-2, 1, 1, MPI_INT, &t), MPI_ERR_COUNT, "count = -2");
    REFUSED(MPI_Type_vector(1, -2, 1, MPI_INT, &t), MPI_ERR_ARG, "blocklength = -2");
    REFUSED(MPI_Type_create_hvector(1, -2, 1, MPI_INT, &t), MPI_ERR_ARG, "blocklength = -2");
    REFUSED(MPI_Type_indexed(-1, one, zero, MPI_INT, &t), MPI_ERR_COUNT, "count = -1");
    REFUSED(MPI_Type_indexed(1, minus, zero, MPI_INT, &t), MPI_ERR_ARG, "= -1");
    REFUSED(MPI_Type_indexed(1, NULL, zero, MPI_INT, &t), MPI_ERR_ARG, "= NULL");
    REFUSED(MPI_Type_create_hindexed(1, minus, at, MPI_INT, &t), MPI_ERR_ARG, "= -1");
    REFUSED(MPI_Type_create_indexed_block(1, -1, zero, MPI_INT, &t), MPI_ERR_ARG, "blocklength = -1");
    REFUSED(MPI_Type_create_hindexed_block(-1, 1, at, MPI_INT, &t), MPI_ERR_COUNT, "count = -1");
    REFUSED(MPI_Type_create_struct(1, one, at, bad, &t), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_create_struct(1, minus, at, ints, &t), MPI_ERR_ARG, "= -1");
    REFUSED(MPI_Type_create_struct(-1, one, at, ints, &t), MPI_ERR_COUNT, "count = -1");
    REFUSED(MPI_Type_create_subarray(-1, one, one, zero, MPI_ORDER_C, MPI_INT, &t), MPI_ERR_ARG, "ndims = -1");
    REFUSED(MPI_Type_create_subarray(1, one, one, zero, 9876, MPI_INT, &t), MPI_ERR_ARG, "order = 9876");
    REFUSED(MPI_Type_create_resized(MPI_DATATYPE_NULL, 0, 4, &t), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_dup(MPI_DATATYPE_NULL, &t), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_commit(&t), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_free(&t), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    t = MPI_INT;
    REFUSED(MPI_Type_free(&t), MPI_ERR_TYPE, "MPI_INT");
    REFUSED(MPI_Type_size(MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_get_extent(MPI_DATATYPE_NULL, &lb, &extent), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_get_envelope(MPI_DATATYPE_NULL, &n, &n, &n, &n), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    REFUSED(MPI_Type_get_contents(MPI_INT, 4, 0, 0, i, at, ints), MPI_ERR_TYPE, "MPI_INT");
    MPI_Type_contiguous(3, MPI_INT, &t);
    REFUSED(MPI_Type_get_contents(t, 0, 0, 1, i, at, ints), MPI_ERR_ARG, "max_integers = 0");
    REFUSED(MPI_Type_get_contents(t, 1, 0, 0, i, at, ints), MPI_ERR_ARG, "max_datatypes = 0");
    REFUSED(MPI_Send(i, 1, t, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "commit");
    MPI_Type_free(&t);
    REFUSED(MPI_Type_create_f90_real(999, 99999, &t), MPI_ERR_ARG, "= 999");
    REFUSED(MPI_Type_create_f90_integer(999, &t), MPI_ERR_ARG, "= 999");
    REFUSED(MPI_Type_match_size(9876, 4, &t), MPI_ERR_ARG, "typeclass = 9876");
    REFUSED(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &t), MPI_ERR_ARG, "size = 3");
    REFUSED(MPI_Type_set_name(MPI_DATATYPE_NULL, "x"), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    if (strict) {
        REFUSED(MPI_Type_create_subarray(1, zero, one, zero, MPI_ORDER_C, MPI_INT, &t), MPI_ERR_ARG, "= 0");
        REFUSED(MPI_Type_create_subarray(1, one, two, zero, MPI_ORDER_C, MPI_INT, &t), MPI_ERR_ARG, "= 2");
        REFUSED(MPI_Type_create_subarray(1, two, one, two, MPI_ORDER_C, MPI_INT, &t), MPI_ERR_ARG, "= 2");
        REFUSED(MPI_Type_create_darray(2, 0, 1, one, cyclic, none, one, MPI_ORDER_C, MPI_INT, &t), MPI_ERR_ARG, "= ");
        REFUSED(MPI_Type_create_darray(1, 3, 1, one, cyclic, none, one, MPI_ORDER_C, MPI_INT, &t), MPI_ERR_ARG,
                "rank = 3");
        REFUSED(MPI_Type_create_darray(1, 0, 1, one, zero, none, one, MPI_ORDER_C, MPI_INT, &t), MPI_ERR_ARG, "= 0");
        /* places for results, which others write without a look */
        REFUSED(MPI_Type_contiguous(1, MPI_INT, NULL), MPI_ERR_ARG, "newtype = NULL");
        REFUSED(MPI_Type_size(MPI_INT, NULL), MPI_ERR_ARG, "size = NULL");
        REFUSED(MPI_Get_address(&n, NULL), MPI_ERR_ARG, "= NULL");
    }
}

static void packing(void)
{
    char buf[16];
    int x[2] = {1, 2}, position = 0;
    MPI_Aint at = 0, size;
    REFUSED(MPI_Pack(x, -1, MPI_INT, buf, 16, &position, MPI_COMM_WORLD), MPI_ERR_COUNT, "incount = -1");
    if (strict)
        REFUSED(MPI_Pack(x, 2, MPI_INT, buf, 7, &position, MPI_COMM_WORLD), MPI_ERR_TRUNCATE, "outsize");
    if (strict)
        REFUSED(MPI_Unpack(buf, 7, &position, x, 2, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE, "insize");
    REFUSED(MPI_Unpack(buf, 16, &position, x, -2, MPI_INT, MPI_COMM_WORLD), MPI_ERR_COUNT, "outcount = -2");
    REFUSED(MPI_Pack_size(-1, MPI_INT, MPI_COMM_WORLD, &position), MPI_ERR_COUNT, "incount = -1");
    REFUSED(MPI_Pack_size(1, MPI_INT, MPI_COMM_NULL, &position), MPI_ERR_COMM, "MPI_COMM_NULL");
    if (strict) {
        REFUSED(MPI_Pack_external("internal", x, 1, MPI_INT, buf, 16, &at), MPI_ERR_ARG, "datarep = \"internal\"");
        REFUSED(MPI_Pack_external_size("internal", 1, MPI_INT, &size), MPI_ERR_ARG, "datarep = \"internal\"");
        REFUSED(MPI_Pack(NULL, 1, MPI_INT, buf, 16, &position, MPI_COMM_WORLD), MPI_ERR_BUFFER, "inbuf = NULL");
        REFUSED(MPI_Pack(x, 1, MPI_INT, buf, 16, NULL, MPI_COMM_WORLD), MPI_ERR_ARG, "position = NULL");
        REFUSED(MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "size = NULL");
        position = -1;
        REFUSED(MPI_Pack(x, 1, MPI_INT, buf, 16, &position, MPI_COMM_WORLD), MPI_ERR_ARG, "position = -1");
    }
}

/* Of calls that have several counts, types and tags the error names the right one. */
static void messages(void)
{
    int x[4] = {0}, y[4] = {0}, n;
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Status status;
    MPI_Request none = MPI_REQUEST_NULL;
    REFUSED(MPI_Sendrecv(x, -1, MPI_INT, 0, 0, y, 1, MPI_INT, 0, 0, w, &status), MPI_ERR_COUNT, "sendcount = -1");
    REFUSED(MPI_Sendrecv(x, 1, MPI_INT, 0, 0, y, -1, MPI_INT, 0, 0, w, &status), MPI_ERR_COUNT, "recvcount = -1");
    REFUSED(MPI_Sendrecv(x, 1, MPI_DATATYPE_NULL, 0, 0, y, 1, MPI_INT, 0, 0, w, &status), MPI_ERR_TYPE,
            "sendtype = MPI_DATATYPE_NULL");
    REFUSED(MPI_Sendrecv(x, 1, MPI_INT, 0, -5, y, 1, MPI_INT, 0, 0, w, &status), MPI_ERR_TAG, "sendtag = -5");
    REFUSED(MPI_Sendrecv(x, 1, MPI_INT, 0, 0, y, 1, MPI_INT, 0, -5, w, &status), MPI_ERR_TAG, "recvtag = -5");
    REFUSED(MPI_Sendrecv(x, 1, MPI_INT, test_size, 0, y, 1, MPI_INT, 0, 0, w, &status), MPI_ERR_RANK, "dest = ");
    REFUSED(MPI_Sendrecv(x, 1, MPI_INT, 0, 0, y, 1, MPI_INT, test_size, 0, w, &status), MPI_ERR_RANK, "source = ");
    REFUSED(MPI_Bcast(x, -1, MPI_INT, 0, w), MPI_ERR_COUNT, "count = -1");
    REFUSED(MPI_Bcast(x, 1, MPI_INT, -3, w), MPI_ERR_ROOT, "root = -3");
    REFUSED(MPI_Allgather(x, -1, MPI_INT, y, 1, MPI_INT, w), MPI_ERR_COUNT, "sendcount = -1");
    REFUSED(MPI_Allgather(x, 1, MPI_INT, y, -1, MPI_INT, w), MPI_ERR_COUNT, "recvcount = -1");
    REFUSED(MPI_Alltoall(x, 1, MPI_INT, y, 1, MPI_DATATYPE_NULL, w), MPI_ERR_TYPE, "recvtype = MPI_DATATYPE_NULL");
    REFUSED(MPI_Alltoall(x, 1, MPI_DATATYPE_NULL, y, 1, MPI_INT, w), MPI_ERR_TYPE, "sendtype = MPI_DATATYPE_NULL");
    REFUSED(MPI_Allreduce(x, y, 1, MPI_INT, MPI_OP_NULL, w), MPI_ERR_OP, "op = MPI_OP_NULL");
    if (strict) {
        REFUSED(MPI_Sendrecv(NULL, 1, MPI_INT, 0, 0, y, 1, MPI_INT, 0, 0, w, &status), MPI_ERR_BUFFER,
                "sendbuf = NULL");
        REFUSED(MPI_Allreduce(NULL, y, 1, MPI_INT, MPI_SUM, w), MPI_ERR_BUFFER, "sendbuf = NULL");
        REFUSED(MPI_Allreduce(x, NULL, 1, MPI_INT, MPI_SUM, w), MPI_ERR_BUFFER, "recvbuf = NULL");
        REFUSED(MPI_Bcast(NULL, 1, MPI_INT, 0, w), MPI_ERR_BUFFER, "buffer = NULL");
        REFUSED(MPI_Get_count(&status, MPI_INT, NULL), MPI_ERR_ARG, "count = NULL");
        REFUSED(MPI_Waitall(-1, &none, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "count = -1");
        REFUSED(MPI_Isend(x, 1, MPI_INT, 0, 0, w, NULL), MPI_ERR_ARG, "request = NULL");
    }
    REFUSED(MPI_Get_count(&status, MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE, "datatype = MPI_DATATYPE_NULL");
}

static void operators(void)
{
    MPI_Op op = MPI_SUM;
    int x = 1, y = 2;
    float f = 0;
    if (strict)
        REFUSED(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG, "= NULL");
    REFUSED(MPI_Op_free(&op), MPI_ERR_OP, "MPI_SUM");
    REFUSED(MPI_Op_commutative(MPI_OP_NULL, &x), MPI_ERR_OP, "MPI_OP_NULL");
    if (strict)
        REFUSED(MPI_Reduce_local(&x, &y, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT, "count = -1");
    REFUSED(MPI_Reduce_local(&f, &f, 1, MPI_FLOAT, MPI_BAND), MPI_ERR_OP, "MPI_BAND");
    REFUSED(MPI_Reduce_local(&x, &y, 1, MPI_INT, MPI_MAXLOC), MPI_ERR_OP, "MPI_MAXLOC");
}

static void groups(void)
{
    MPI_Group w, g = MPI_GROUP_NULL;
    int zero[1] = {0}, minus[1] = {-1}, far[1][3] = {{0, test_size, 1}}, out[1], n;
    MPI_Comm_group(MPI_COMM_WORLD, &w);
    REFUSED(MPI_Group_incl(w, -1, zero, &g), MPI_ERR_ARG, "n = -1");
    REFUSED(MPI_Group_incl(w, 1, minus, &g), MPI_ERR_RANK, "ranks = -1");
    REFUSED(MPI_Group_excl(w, -1, zero, &g), MPI_ERR_ARG, "n = -1");
    REFUSED(MPI_Group_range_incl(w, 1, far, &g), MPI_ERR_RANK, "ranges = ");
    REFUSED(MPI_Group_range_excl(w, 1, far, &g), MPI_ERR_RANK, "ranges = ");
    REFUSED(MPI_Group_translate_ranks(w, -1, zero, w, out), MPI_ERR_ARG, "n = -1");
    if (strict)
        REFUSED(MPI_Group_translate_ranks(w, 1, minus, w, out), MPI_ERR_RANK, "ranks1 = -1");
    REFUSED(MPI_Group_rank(MPI_GROUP_NULL, &n), MPI_ERR_GROUP, "group = MPI_GROUP_NULL");
    REFUSED(MPI_Group_compare(w, MPI_GROUP_NULL, &n), MPI_ERR_GROUP, "MPI_GROUP_NULL");
    REFUSED(MPI_Group_free(&g), MPI_ERR_GROUP, "MPI_GROUP_NULL");
    if (strict) {
        REFUSED(MPI_Group_size(w, NULL), MPI_ERR_ARG, "size = NULL");
        REFUSED(MPI_Group_incl(w, 1, NULL, &g), MPI_ERR_ARG, "ranks = NULL");
    }
    MPI_Group_free(&w);
}

static void communicators(void)
{
    MPI_Comm c;
    MPI_Group w;
    MPI_Errhandler for_sessions;
    int n, key, predefined = MPI_TAG_UB;
    REFUSED(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_NULL, &n), MPI_ERR_COMM, "MPI_COMM_NULL");
    if (strict)
        REFUSED(MPI_Comm_remote_size(MPI_COMM_WORLD, &n), MPI_ERR_COMM, "comm = MPI_COMM_WORLD");
    if (strict)
        REFUSED(MPI_Comm_remote_group(MPI_COMM_WORLD, &w), MPI_ERR_COMM, "comm = MPI_COMM_WORLD");
    REFUSED(MPI_Comm_group(MPI_COMM_NULL, &w), MPI_ERR_COMM, "MPI_COMM_NULL");
    REFUSED(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &n, &n), MPI_ERR_KEYVAL, "keyval = ");
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    if (strict) {
        REFUSED(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL), MPI_ERR_KEYVAL, "keyval = ");
        REFUSED(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB), MPI_ERR_KEYVAL, "keyval = ");
        REFUSED(MPI_Comm_free_keyval(&predefined), MPI_ERR_KEYVAL, "keyval = ");
        REFUSED(MPI_Type_set_attr(MPI_INT, key, NULL), MPI_ERR_KEYVAL, "keyval = ");
        REFUSED(MPI_Comm_set_name(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "comm_name = NULL");
        REFUSED(MPI_Session_create_errhandler(NULL, &for_sessions), MPI_ERR_ARG, "= NULL");
    }
    MPI_Comm_free_keyval(&key);
    MPI_Comm_group(MPI_COMM_WORLD, &w);
    if (strict)
        REFUSED(MPI_Comm_create_group(MPI_COMM_WORLD, w, -4, &c), MPI_ERR_TAG, "tag = -4");
    MPI_Group_free(&w);
    REFUSED(MPI_Comm_call_errhandler(MPI_COMM_NULL, MPI_ERR_OTHER), MPI_ERR_COMM, "MPI_COMM_NULL");
}

static void environment(void)
{
    int class, code, len, last, *used, flag;
    char text[MPI_MAX_ERROR_STRING];
    void *memory;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &used, &flag);
    last = *used;
    if (strict) {
        REFUSED(MPI_Error_class(last + 5, &class), MPI_ERR_ARG, "errorcode = ");
        REFUSED(MPI_Error_string(last + 5, text, &len), MPI_ERR_ARG, "errorcode = ");
        REFUSED(MPI_Add_error_code(last + 5, &code), MPI_ERR_ARG, "errorclass = ");
        REFUSED(MPI_Add_error_string(MPI_ERR_RANK, "x"), MPI_ERR_ARG, "errorcode = ");
        REFUSED(MPI_Remove_error_class(MPI_ERR_RANK), MPI_ERR_ARG, "errorclass = ");
        REFUSED(MPI_Remove_error_code(MPI_ERR_RANK), MPI_ERR_ARG, "errorcode = ");
        REFUSED(MPI_Remove_error_string(MPI_ERR_RANK), MPI_ERR_ARG, "errorcode = ");
        REFUSED(MPI_Get_version(NULL, &len), MPI_ERR_ARG, "version = NULL");
        REFUSED(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM, "1152921504606846976");
    }
    REFUSED(MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory), MPI_ERR_ARG, "size = -1");
}

static void information(void)
{
    MPI_Info info, none = MPI_INFO_NULL;
    char *too_long = malloc(MPI_MAX_INFO_VAL + 2), key[MPI_MAX_INFO_KEY];
    int n;
    memset(too_long, 'v', MPI_MAX_INFO_VAL + 1);
    too_long[MPI_MAX_INFO_VAL + 1] = 0;
    MPI_Info_create(&info);
    REFUSED(MPI_Info_set(info, "key", too_long), MPI_ERR_INFO_VALUE, "value = ");
    REFUSED(MPI_Info_get_nthkey(info, 0, key), MPI_ERR_ARG, "n = 0");
    REFUSED(MPI_Info_get_nthkey(info, -1, key), MPI_ERR_ARG, "n = -1");
    REFUSED(MPI_Info_get_nkeys(none, &n), MPI_ERR_INFO, "info = MPI_INFO_NULL");
    REFUSED(MPI_Info_free(&none), MPI_ERR_INFO, "info = MPI_INFO_NULL");
    REFUSED(MPI_Info_delete(info, "nothing"), MPI_ERR_INFO_NOKEY, "key = \"nothing\"");
    if (strict) {
        MPI_Info env = MPI_INFO_ENV;
        REFUSED(MPI_Info_set(MPI_INFO_ENV, "a", "b"), MPI_ERR_INFO, "info = MPI_INFO_ENV");
        REFUSED(MPI_Info_free(&env), MPI_ERR_INFO, "info = MPI_INFO_ENV");
        REFUSED(MPI_Info_set(info, NULL, "b"), MPI_ERR_ARG, "key = NULL");
        REFUSED(MPI_Info_set(info, "a", NULL), MPI_ERR_ARG, "value = NULL");
    }
    MPI_Info_free(&info);
    free(too_long);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    datatypes();
    packing();
    messages();
    operators();
    groups();
    communicators();
    environment();
    information();
    return test_finish();
}
