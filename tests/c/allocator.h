/* Memory that the library does not get: the program's calloc, which all temporary buffers of the
 * library come from, fails where a test wants it. Others that it loads, as libfabric, get theirs. */
#ifndef ALLOCATOR_H
#define ALLOCATOR_H
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* Bytes of the shortest block that can fail: what the library cannot do without is shorter. */
enum { LONG_BLOCK = 2048 };

/* Long blocks that still succeed; negative: all do. The one after them fails, and with `for_ever`
 * all after it. */
static atomic_long blocks_left = -1;
static atomic_int for_ever, failed_blocks;

extern void *__libc_calloc(size_t count, size_t size);

static int is_library(const void *code)
{
    Dl_info info;
    return dladdr(code, &info) && strstr(info.dli_fname, "libmpi");
}

void *calloc(size_t count, size_t size)
{
    if (atomic_load(&blocks_left) >= 0 && size > 0 && count >= LONG_BLOCK / size &&
        is_library(__builtin_return_address(0))) {
        if (atomic_fetch_sub(&blocks_left, 1) <= 0) {
            atomic_store(&blocks_left, atomic_load(&for_ever) ? 0 : -1);
            atomic_fetch_add(&failed_blocks, 1);
            return NULL;
        }
    }
    return __libc_calloc(count, size);
}

/* From now on the block after `left` others fails, and all later ones if `all`. */
static void fail_blocks(long left, int all)
{
    atomic_store(&failed_blocks, 0);
    atomic_store(&for_ever, all);
    atomic_store(&blocks_left, left);
}

/* No block fails any more. Returns how many have. */
static int end_failures(void)
{
    atomic_store(&blocks_left, -1);
    return atomic_load(&failed_blocks);
}

#endif
