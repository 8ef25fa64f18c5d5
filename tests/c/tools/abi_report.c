/* What a program of the standard ABI sees of its library: values of constants and handles, results, statuses, and what its callbacks
 * get. Rank 0 prints a line for each, which is the same whichever MPI compiled the program and whichever library it runs on
 * (tests/jobs/standard_abi.rs): what the standard leaves open is not printed. The library's name goes to standard error. On 3 ranks. */
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

/* A line of rank 0. */
static void say(const char *format, ...)
{
    va_list values;
    if (rank != 0)
        return;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
}

static void say_status(const char *what, MPI_Status *status, MPI_Datatype type)
{
    int count = -1, elements = -1;
    MPI_Get_count(status, type, &count);
    MPI_Get_elements(status, type, &elements);
    say("%s: source %d tag %d count %d elements %d", what, status->MPI_SOURCE, status->MPI_TAG, count, elements);
}

static void handles(void)
{
    const MPI_Datatype types[] = {
        MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE, MPI_WCHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT, MPI_UNSIGNED,
        MPI_LONG, MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_BOOL,
        MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T, MPI_AINT, MPI_COUNT,
        MPI_OFFSET, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_2INT, MPI_SHORT_INT, MPI_PACKED,
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[MPI_MAX_OBJECT_NAME] = "";
        int length = 0, bytes = -1;
        MPI_Aint lower = -1, extent = -1;
        MPI_Type_get_name(types[i], name, &length);
        MPI_Type_size(types[i], &bytes);
        MPI_Type_get_extent(types[i], &lower, &extent);
        say("type %d: %s size %d extent %d", (int)(intptr_t)types[i], name, bytes, (int)extent);
    }
    say("constants: world %d self %d sum %d empty group %d info %d fatal %d", (int)(intptr_t)MPI_COMM_WORLD,
        (int)(intptr_t)MPI_COMM_SELF, (int)(intptr_t)MPI_SUM, (int)(intptr_t)MPI_GROUP_EMPTY, (int)(intptr_t)MPI_INFO_ENV,
        (int)(intptr_t)MPI_ERRORS_ARE_FATAL);
    say("errors return: %d", (int)(intptr_t)MPI_ERRORS_RETURN);
    say("toint: world %d sum %d double %d", MPI_Comm_toint(MPI_COMM_WORLD), MPI_Op_toint(MPI_SUM), MPI_Type_toint(MPI_DOUBLE));
    say("fromint: %d", MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
}

static void messages(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, out[8] = {rank}, in[8], flag = -1;
    MPI_Status status, both[2];
    MPI_Request requests[2];
    MPI_Sendrecv(out, 3, MPI_INT, right, 5, in, 8, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    say_status("exchange", &status, MPI_INT);
    MPI_Irecv(in, 8, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 2, MPI_INT, right, 6, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, both);
    say_status("any source", &both[0], MPI_INT);
    say("requests are null: %d %d", requests[0] == MPI_REQUEST_NULL, requests[1] == MPI_REQUEST_NULL);
    MPI_Recv(in, 8, MPI_INT, MPI_PROC_NULL, 9, MPI_COMM_WORLD, &status);
    say_status("no process", &status, MPI_INT);
    MPI_Irecv(in, 8, MPI_INT, left, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    say("cancelled receive: %d", flag);
    MPI_Isend(out, 5, MPI_INT, right, 8, MPI_COMM_WORLD, &requests[0]);
    MPI_Probe(left, 8, MPI_COMM_WORLD, &status);
    say_status("probed", &status, MPI_INT);
    MPI_Test_cancelled(&status, &flag);
    say("cancelled probe: %d", flag);
    MPI_Recv(in, 8, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isend(out, 1, MPI_INT, right, 8, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_c(in, 8, MPI_INT, left, 8, MPI_COMM_WORLD, &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Count many = -1;
    MPI_Get_count_c(&status, MPI_INT, &many);
    say("large count %d, value %d", (int)many, in[0]);
}

static void reductions(void)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int whole = rank + 5, all = -1;
        long long wide = 3 * rank + 1, sum = -1;
        MPI_Allreduce(&whole, &all, 1, MPI_INT, ops[i], MPI_COMM_WORLD);
        MPI_Allreduce(&wide, &sum, 1, MPI_LONG_LONG, ops[i], MPI_COMM_WORLD);
        say("op %d: %d %lld", (int)(intptr_t)ops[i], all, sum);
    }
    struct {
        double value;
        int where;
    } pair = {(rank * 7) % 3, rank}, least, most;
    MPI_Allreduce(&pair, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    MPI_Allreduce(&pair, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    say("least %.1f of %d, most %.1f of %d", least.value, least.where, most.value, most.where);
    int mine[3] = {rank, rank + 10, rank + 20}, turned[3], prefix = -1;
    MPI_Request request;
    MPI_Ialltoall(mine, 1, MPI_INT, turned, 1, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, turned, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Scan(&mine[1], &prefix, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(&prefix, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    say("alltoall %d %d %d, scan %d", turned[0], turned[1], turned[2], prefix);
}

/* Puts one number's digits before the other's: their order shows. */
static void append(void *in, void *inout, int *count, MPI_Datatype *type)
{
    for (int i = 0; *type == MPI_LONG && i < *count; i++) {
        long left = ((long *)in)[i], right = ((long *)inout)[i], shift = 1;
        while (shift <= right)
            shift *= 10;
        ((long *)inout)[i] = left * shift + right;
    }
}

static int copies, deletions;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *to, int *flag)
{
    (void)key;
    copies += comm == MPI_COMM_WORLD ? *(int *)extra : 100;
    *(void **)to = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key, (void)value;
    deletions += comm != MPI_COMM_NULL ? *(int *)extra : 100;
    return MPI_SUCCESS;
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    int class = -1;
    MPI_Error_class(*code, &class);
    say("error of the world %d, class %d", *comm == MPI_COMM_WORLD, class);
}

static int query(void *state, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, *(int *)state);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 11;
    status->MPI_TAG = 12;
    return MPI_SUCCESS;
}

static int drop(void *state)
{
    *(int *)state = 0;
    return MPI_SUCCESS;
}

static int cancel(void *state, int is_complete)
{
    (void)state, (void)is_complete;
    return MPI_SUCCESS;
}

static void callbacks(void)
{
    long digit = rank + 1, number = -1;
    int extra = 7, key, state = 4, found = -1, *value = &extra;
    MPI_Op op;
    MPI_Comm twin;
    MPI_Errhandler errors;
    MPI_Request request;
    MPI_Status status;
    MPI_Op_create(append, 0, &op);
    MPI_Reduce(&digit, &number, 1, MPI_LONG, op, 0, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    say("own operator: %ld", number);
    MPI_Comm_create_keyval(copy, delete, &key, &extra);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, value);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    value = NULL;
    MPI_Comm_get_attr(twin, key, &value, &found);
    say("attribute: found %d right %d copies %d", found, value == &extra, copies);
    MPI_Comm_free(&twin);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    say("deletions %d, key is invalid: %d", deletions, key == MPI_KEYVAL_INVALID);
    MPI_Comm_create_errhandler(handler, &errors);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, errors);
    MPI_Errhandler_free(&errors);
    MPI_Send(&extra, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    MPI_Send(&extra, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Send(&extra, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD);
    MPI_Reduce(&extra, &found, 1, MPI_INT, MPI_SUM, -5, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Grequest_start(query, drop, cancel, &state, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    say_status("generalized request", &status, MPI_INT);
    say("state is freed: %d", state == 0);
}

static void datatypes(void)
{
    const int lengths[] = {2, 1}, sizes[] = {4, 6}, parts[] = {2, 3}, starts[] = {1, 2};
    const MPI_Aint places[] = {0, 16};
    const MPI_Datatype members[] = {MPI_INT, MPI_DOUBLE};
    MPI_Datatype record, block, rows;
    int integers, addresses, types, combiner, grid[24], packed[6], position = 0;
    unsigned char bytes[64] = {0};
    MPI_Aint lower, extent, place = 0;
    MPI_Type_create_struct(2, lengths, places, members, &record);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &block);
    MPI_Type_vector(3, 1, 4, MPI_SHORT, &rows);
    MPI_Datatype made[] = {record, block, rows};
    for (int i = 0; i < 3; i++) {
        MPI_Type_commit(&made[i]);
        MPI_Type_get_envelope(made[i], &integers, &addresses, &types, &combiner);
        MPI_Type_get_extent(made[i], &lower, &extent);
        say("made: combiner %d of %d %d %d, from %d to %d", combiner, integers, addresses, types, (int)lower,
            (int)(lower + extent));
    }
    for (int i = 0; i < 24; i++)
        grid[i] = i;
    MPI_Pack(grid, 1, block, packed, sizeof packed, &position, MPI_COMM_WORLD);
    say("packed %d bytes: %d %d %d %d %d %d", position, packed[0], packed[1], packed[2], packed[3], packed[4], packed[5]);
    MPI_Pack_external("external32", grid, 1, block, bytes, sizeof bytes, &place);
    say("external32: %d bytes %d %d %d %d", (int)place, bytes[0], bytes[3], bytes[7], bytes[23]);
    for (int i = 0; i < 3; i++)
        MPI_Type_free(&made[i]);
}

static void communicators(void)
{
    MPI_Comm half, cart, inter;
    MPI_Group world, one;
    int same = -1, topology = -1, coords[2] = {-1, -1}, dims[2] = {0, 0}, periods[2] = {1, 0}, from, to, other = -1, far_size = -1;
    int last = size - 1;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : 1, -rank, &half);
    if (half != MPI_COMM_NULL) {
        MPI_Comm_rank(half, &other);
        MPI_Comm_compare(half, MPI_COMM_WORLD, &same);
        MPI_Comm_free(&half);
    }
    say("half: rank %d, compared %d", other, same);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    MPI_Topo_test(cart, &topology);
    MPI_Cart_shift(cart, 0, 1, &from, &to);
    MPI_Cart_coords(cart, last, 2, coords);
    say("grid %dx%d: topology %d, from %d to %d, last at %d %d", dims[0], dims[1], topology, from, to, coords[0], coords[1]);
    MPI_Comm_free(&cart);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &last, &one);
    MPI_Group_translate_ranks(world, 1, &rank, one, &other);
    MPI_Group_compare(world, one, &same);
    say("group: rank %d, compared %d", other, same);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 3, &inter);
    MPI_Comm_remote_size(inter, &far_size);
    say("other side: %d ranks", far_size);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Group_free(&one);
    MPI_Group_free(&world);
}

static void windows(void)
{
    MPI_Win window;
    long *memory, one = 1, before = -1;
    int found, *flavor, *unit;
    MPI_Aint *bytes;
    MPI_Win_allocate((MPI_Aint)(4 * sizeof *memory), sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
    MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, &unit, &found);
    MPI_Win_get_attr(window, MPI_WIN_SIZE, &bytes, &found);
    say("window: flavor %d unit %d bytes %d", *flavor, *unit, (int)*bytes);
    memset(memory, 0, 4 * sizeof *memory);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, window);
    MPI_Put(&one, 1, MPI_LONG, (rank + 1) % size, 2, 1, MPI_LONG, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    say("accumulated %ld, put %ld", memory[1], memory[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 3, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    MPI_Allreduce(MPI_IN_PLACE, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    say("fetched in all %ld", before);
    MPI_Win_free(&window);
    say("window is null: %d", window == MPI_WIN_NULL);
}

static void info(void)
{
    MPI_Info info;
    char value[16] = "";
    int keys = -1, found = -1, room = sizeof value;
    MPI_Info_create(&info);
    MPI_Info_set(info, "colour", "blue");
    MPI_Info_set(info, "size", "12");
    MPI_Info_get_nkeys(info, &keys);
    MPI_Info_get_string(info, "colour", &room, value, &found);
    say("info: %d keys, colour %s in %d bytes, found %d", keys, value, room, found);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int provided = -1, major = -1, minor = -1, length;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(library, &length);
    if (rank == 0)
        fprintf(stderr, "library: %s\n", library);
    MPI_Abi_get_version(&major, &minor);
    say("ABI %d.%d, %d ranks, threads %d", major, minor, size, provided >= MPI_THREAD_FUNNELED);
    handles();
    messages();
    reductions();
    callbacks();
    datatypes();
    communicators();
    windows();
    info();
    MPI_Finalize();
    return 0;
}
