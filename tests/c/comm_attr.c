/* Attributes: predefined ones, copy and delete callbacks with order and values on communicators and
 * datatypes, and callbacks that refuse. */
#include "test.h"

static int copied, deleted, order[8], norder;

static int copy_plus_one(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c, (void)key;
    CHECK_INT(*(int *)extra, 4711, "extra state in the copy callback");
    copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int never_copy(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c, (void)key, (void)extra, (void)in, (void)out;
    copied += 100;
    *flag = 0;
    return MPI_SUCCESS;
}

static int record_delete(MPI_Comm c, int key, void *value, void *extra)
{
    (void)c, (void)key, (void)extra;
    deleted++;
    if (norder < 8)
        order[norder++] = (int)(intptr_t)value;
    return MPI_SUCCESS;
}

static int refuse_delete(MPI_Comm c, int key, void *value, void *extra)
{
    (void)c, (void)key, (void)value;
    return *(int *)extra ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int type_copy(MPI_Datatype t, int key, void *extra, void *in, void *out, int *flag)
{
    (void)t, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    copied++;
    return MPI_SUCCESS;
}

static int type_delete(MPI_Datatype t, int key, void *value, void *extra)
{
    (void)t, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void predefined(void)
{
    int *v = NULL, flag = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &v, &flag);
    CHECK(flag && *v >= 32767, "MPI_TAG_UB is missing or too small");
    if (flag) { /* the largest tag works */
        int x = 3, y = 0;
        MPI_Sendrecv(&x, 1, MPI_INT, test_rank, *v, &y, 1, MPI_INT, test_rank, *v, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        CHECK_INT(y, 3, "message with tag MPI_TAG_UB");
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &v, &flag);
    CHECK(flag && (*v == 0 || *v == 1), "MPI_WTIME_IS_GLOBAL");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &v, &flag);
    CHECK(flag, "MPI_IO is missing");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &v, &flag);
    CHECK(!flag || *v == MPI_PROC_NULL || (*v >= 0 && *v < test_size), "MPI_HOST is %d", *v);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &v, &flag);
    CHECK(!flag || *v >= 0, "MPI_APPNUM is %d", *v);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &v, &flag);
    CHECK(!flag || *v >= 1, "MPI_UNIVERSE_SIZE is %d", *v);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int k1, k2, k3, flag, extra = 4711, refuse = 1, code;
    void *v;
    MPI_Comm c, d;
    predefined();
    MPI_Comm_create_keyval(copy_plus_one, record_delete, &k1, &extra);
    MPI_Comm_create_keyval(never_copy, record_delete, &k2, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &k3, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_get_attr(c, k1, &v, &flag);
    CHECK_INT(flag, 0, "attribute before it is set");
    MPI_Comm_set_attr(c, k1, (void *)(intptr_t)10);
    MPI_Comm_set_attr(c, k2, (void *)(intptr_t)20);
    MPI_Comm_set_attr(c, k3, (void *)(intptr_t)30);
    MPI_Comm_dup(c, &d);
    CHECK_INT(copied, 101, "copy callbacks called by dup");
    MPI_Comm_get_attr(d, k1, &v, &flag);
    CHECK(flag && (intptr_t)v == 11, "copied attribute: flag %d value %ld", flag, (long)(intptr_t)v);
    MPI_Comm_get_attr(d, k2, &v, &flag);
    CHECK_INT(flag, 0, "attribute whose callback refused the copy");
    MPI_Comm_get_attr(d, k3, &v, &flag);
    CHECK_INT(flag, 0, "attribute with the null copy function");
    /* a split does not copy */
    MPI_Comm s;
    MPI_Comm_split(c, 0, 0, &s);
    MPI_Comm_get_attr(s, k1, &v, &flag);
    CHECK_INT(flag, 0, "attribute after split");
    MPI_Comm_free(&s);
    CHECK_INT(deleted, 0, "delete callbacks so far");
    /* overwriting deletes the old value */
    MPI_Comm_set_attr(c, k1, (void *)(intptr_t)12);
    CHECK(deleted == 1 && order[0] == 10, "set_attr over a value: %d deletions, first of %d",
          deleted, order[0]);
    MPI_Comm_delete_attr(c, k2);
    CHECK(deleted == 2 && order[1] == 20, "delete_attr: %d deletions, second of %d", deleted,
          order[1]);
    MPI_Comm_get_attr(c, k2, &v, &flag);
    CHECK_INT(flag, 0, "attribute after delete_attr");
    MPI_Comm_free(&d);
    CHECK(deleted == 3 && order[2] == 11, "free of the dup: %d deletions", deleted);
    /* a freed key lives on in the communicators that hold it */
    int old = k1;
    MPI_Comm_free_keyval(&k1);
    CHECK_INT(k1, MPI_KEYVAL_INVALID, "key after free_keyval");
    (void)old;
    MPI_Comm_free(&c);
    CHECK(deleted == 4 && order[3] == 12, "free: %d deletions", deleted);
    MPI_Comm_free_keyval(&k2);
    MPI_Comm_free_keyval(&k3);

    /* a delete callback that refuses keeps the attribute */
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, refuse_delete, &k1, &refuse);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_attr(c, k1, &refuse);
    code = MPI_Comm_delete_attr(c, k1);
    CHECK(code != MPI_SUCCESS, "delete_attr succeeded though the callback refused");
    refuse = 0;
    MPI_Comm_get_attr(c, k1, &v, &flag);
    CHECK(flag && v == &refuse, "attribute after a refused delete");
    MPI_Comm_dup(c, &d); /* MPI_COMM_DUP_FN copies as it is */
    MPI_Comm_get_attr(d, k1, &v, &flag);
    CHECK(flag && v == &refuse, "attribute by MPI_COMM_DUP_FN");
    MPI_Comm_free(&d);
    MPI_Comm_free(&c);
    MPI_Comm_free_keyval(&k1);

    /* datatypes have attributes too */
    MPI_Datatype t, u;
    copied = deleted = 0;
    MPI_Type_create_keyval(type_copy, type_delete, &k1, NULL);
    MPI_Type_contiguous(3, MPI_INT, &t);
    MPI_Type_set_attr(t, k1, (void *)(intptr_t)5);
    MPI_Type_dup(t, &u);
    MPI_Type_get_attr(u, k1, &v, &flag);
    CHECK(flag && (intptr_t)v == 5 && copied == 1, "attribute of a type's dup");
    MPI_Type_free(&u);
    MPI_Type_free(&t);
    CHECK_INT(deleted, 2, "deletions of the types' attributes");
    MPI_Type_free_keyval(&k1);
    return test_finish();
}
