/* abi_loads FIRST SECOND: as an interpreter loads its modules, each for itself. FIRST's `first` and SECOND's `second` are parts
 * (tools/abi_part.c); this program itself was built for no MPI. FIRST's MPI is initialized and finalized. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *symbol(void *part, const char *name)
{
    void *found = dlsym(part, name);
    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int argc, char **argv)
{
    void *first = argc < 3 ? NULL : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *second = first == NULL ? NULL : dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (second == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    ((int (*)(int *, char ***))symbol(first, "MPI_Init"))(NULL, NULL);
    printf("the parts see %d and %d\n", ((int (*)(void))symbol(first, "first"))(),
           ((int (*)(void))symbol(second, "second"))());
    return ((int (*)(void))symbol(first, "MPI_Finalize"))();
}
