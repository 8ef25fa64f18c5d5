/* Exits 0 if process_vm_readv works on itself, 1 with the error's name if not: shows that nocma
 * works. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void)
{
    char a[8] = "abcdefg", b[8] = "";
    struct iovec l = {b, 8}, r = {a, 8};
    if (process_vm_readv(getpid(), &l, 1, &r, 1, 0) == 8 && !strcmp(a, b))
        return 0;
    printf("%s\n", strerror(errno));
    return 1;
}
