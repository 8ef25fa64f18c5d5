/* deny CALLS PROGRAM ARGS...: runs a program in which these system calls (names with commas
 * between) fail with EPERM, as in a container whose seccomp profile forbids them. Needs no
 * privilege. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} known[] = {
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sched_setaffinity", SYS_sched_setaffinity},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
};
enum { KNOWN = sizeof known / sizeof *known };

int main(int argc, char **argv)
{
    struct sock_filter code[1 + 2 * KNOWN + 1] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    unsigned short n = 1;
    if (argc < 3) {
        fprintf(stderr, "usage: deny CALLS PROGRAM ARGS...\n");
        return 2;
    }
    for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
        int i = 0;
        while (i < KNOWN && strcmp(name, known[i].name))
            i++;
        if (i == KNOWN || n + 3 > (int)(sizeof code / sizeof *code)) {
            fprintf(stderr, "deny: no system call of the name %s is known\n", name);
            return 2;
        }
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, known[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        fprintf(stderr, "deny: the kernel refuses a seccomp filter: %s\n", strerror(errno));
        return 2;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "deny: %s: %s\n", argv[2], strerror(errno));
    return 127;
}
