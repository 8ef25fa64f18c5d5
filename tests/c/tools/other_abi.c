/* A program of another ABI, with its library, from one source (tests/jobs/profile.rs). The library's
 * handles are pointers, as Open MPI's are: it follows those that it gets. -DLIBRARY makes the library. */
struct communicator {
    int size;
};
extern struct communicator comm_world;

#ifdef LIBRARY
struct communicator comm_world = {1};
#define BOTH(call, args, ...) \
    int P##call args __VA_ARGS__ int call args __attribute__((weak, alias("P" #call)));
BOTH(MPI_Init, (int *argc, char ***argv), { return 0; })
BOTH(MPI_Comm_group, (struct communicator *comm, void **group), {
    *group = comm;
    return comm->size - 1;
})
BOTH(MPI_Barrier, (struct communicator *comm), { return comm->size - 1; })
BOTH(MPI_Finalize, (void), { return 0; })
#else
#include <stdio.h>
int MPI_Init(int *, char ***), MPI_Barrier(struct communicator *), MPI_Finalize(void);
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int code = MPI_Barrier(&comm_world);
    MPI_Finalize();
    puts("done");
    return code;
}
#endif
