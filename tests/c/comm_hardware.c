/* MPI_Get_hw_resource_info and MPI_Comm_split_type by hardware: guided, by resource, by process
 * set, and unguided, which must end, with a strict subset at each step. "strict" adds what the
 * standard leaves to implementations, and a number after it how many steps there are. */
#include "test.h"

static int size_of(MPI_Comm comm)
{
    int size = -1;
    MPI_Comm_size(comm, &size);
    return size;
}

static MPI_Comm split(int type, const char *key, const char *value)
{
    MPI_Info info;
    MPI_Comm comm;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, info, &comm);
    MPI_Info_free(&info);
    return comm;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int strict = argc > 1 && !strcmp(argv[1], "strict"), n = -1, steps = 0;
    MPI_Info resources;
    MPI_Comm comm, next;
    MPI_Get_hw_resource_info(&resources);
    MPI_Info_get_nkeys(resources, &n);
    CHECK(n > 0 || !strict, "%d hardware resources", n);
    for (int i = 0; i < n; i++) {
        char name[MPI_MAX_INFO_KEY] = "", value[16] = "?";
        int room = sizeof value, found = 0, restricted, total = 0, count = 0;
        MPI_Info_get_nthkey(resources, i, name);
        MPI_Info_get_string(resources, name, &room, value, &found);
        restricted = !strcmp(value, "true");
        CHECK(found && (restricted || !strcmp(value, "false")), "%s is \"%s\"", name, value);
        comm = split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", name);
        CHECK(restricted == (comm != MPI_COMM_NULL) || !strict, "%s is %s, split says otherwise", name, value);
        if (comm != MPI_COMM_NULL) {
            CHECK(size_of(comm) >= 1 && size_of(comm) <= test_size, "size %d", size_of(comm));
            MPI_Comm_free(&comm);
            count = 1;
        }
        if (strict) {
            /* the parts are the whole, among those that are restricted to one */
            MPI_Allreduce(&restricted, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK_INT(count, total, "ranks with a communicator");
            comm = split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_hw_resource_type", name);
            CHECK(restricted == (comm != MPI_COMM_NULL), "%s by resource", name);
            if (comm != MPI_COMM_NULL)
                MPI_Comm_free(&comm);
        }
    }
    MPI_Info_free(&resources);

    comm = split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "no such thing");
    CHECK(comm == MPI_COMM_NULL, "split by an unknown resource");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &comm);
    CHECK(comm == MPI_COMM_NULL, "guided split without a guide");
    comm = split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "mpi_shared_memory");
    CHECK(comm != MPI_COMM_NULL, "split by mpi_shared_memory");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &next);
    if (comm != MPI_COMM_NULL) {
        int same = MPI_UNEQUAL;
        MPI_Comm_compare(comm, next, &same);
        CHECK_INT(same, MPI_CONGRUENT, "mpi_shared_memory compared with MPI_COMM_TYPE_SHARED");
        MPI_Comm_free(&comm);
    }
    MPI_Comm_free(&next);
    if (strict) {
        comm = split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://WORLD");
        CHECK(comm != MPI_COMM_NULL && size_of(comm) == test_size, "split by mpi://WORLD");
        MPI_Comm_free(&comm);
        comm = split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://SELF");
        CHECK(comm != MPI_COMM_NULL && size_of(comm) == 1, "split by mpi://SELF");
        MPI_Comm_free(&comm);
        comm = split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://World");
        CHECK(comm != MPI_COMM_NULL && size_of(comm) == test_size, "split by mpi://World");
        MPI_Comm_free(&comm);
        comm = split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://NONE");
        CHECK(comm == MPI_COMM_NULL, "split by no process set");
    }

    /* from the whole to the parts */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    while (comm != MPI_COMM_NULL) {
        char name[64] = "";
        int room = sizeof name, found = 0;
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Comm_split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &next);
        if (next != MPI_COMM_NULL) {
            CHECK(size_of(next) < size_of(comm), "%d of %d ranks are no strict subset", size_of(next),
                  size_of(comm));
            MPI_Info_get_string(info, "mpi_hw_resource_type", &room, name, &found);
            CHECK(found || !strict, "the resource is not named");
            steps++;
        }
        MPI_Info_free(&info);
        MPI_Comm_free(&comm);
        comm = next;
    }
    if (argc > 2)
        CHECK_INT(steps, atoi(argv[2]), "steps of unguided splitting");
    CHECK(steps < test_size, "%d steps among %d ranks", steps, test_size);
    return test_finish();
}
