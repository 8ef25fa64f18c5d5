/* What a kernel, a container or a security policy may refuse to one process and not to its
 * neighbour. */
#ifndef REFUSALS_H
#define REFUSALS_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* _IOWR('f', 17, struct procmap_query), a structure of 104 bytes. */
#define REFUSALS_PROCMAP_QUERY 0xc0686611u

static int refusals_filter(struct sock_filter *code, unsigned short n)
{
    struct sock_fprog filter = {n, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) ? errno : 0;
}

/* Takes `what` away from this process from now on; 0, or the error number of the attempt.
 *   cma        process_vm_readv and process_vm_writev fail with EPERM
 *   readv, writev   only one of the two does
 *   procmap    the ioctl PROCMAP_QUERY fails with EPERM
 *   memory     fallocate fails with ENOSPC
 *   proc       there is no /proc
 *   dumpable   other processes may not trace this one */
static int refusals_begin(const char *what)
{
    struct sock_filter vm[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter procmap[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REFUSALS_PROCMAP_QUERY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter memory[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    if (!strcmp(what, "memory"))
        return refusals_filter(memory, 4);
    if (!strcmp(what, "cma"))
        return refusals_filter(vm, 5);
    if (!strcmp(what, "readv") || !strcmp(what, "writev")) {
        vm[1].k = vm[2].k = what[0] == 'r' ? SYS_process_vm_readv : SYS_process_vm_writev;
        return refusals_filter(vm, 5);
    }
    if (!strcmp(what, "procmap"))
        return refusals_filter(procmap, 6);
    if (!strcmp(what, "proc")) {
        if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || umount2("/proc", MNT_DETACH))
            return errno;
        return 0;
    }
    if (!strcmp(what, "dumpable"))
        return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ? errno : 0;
    return EINVAL;
}

#endif
