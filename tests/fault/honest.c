/*
 * honest.c - a guest that says which walls really stand around it, as one line of JSON.
 *
 * Runs while system calls fail on purpose, its own too: each call is tried again, because a fault
 * is injected once. Static, no C library in the way: only the calls written here happen.
 */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TRIES 4

static long again(long number, long a, long b)
{
    long r = -1;

    for (int i = 0; i < TRIES && r < 0; i++)
        r = syscall(number, a, b, 0L, 0L, 0L, 0L);
    return r;
}

int main(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    struct utsname name = {0};
    char text[512];
    unsigned caps;
    int length;
    long sent = 0;

    again(SYS_capget, (long)&head, (long)data);
    again(SYS_uname, (long)&name, 0);
    caps = data[0].effective | data[0].permitted | data[0].inheritable | data[1].effective |
           data[1].permitted | data[1].inheritable;
    length = snprintf(
        text, sizeof(text),
        "{\"seccomp\":%ld,\"nnp\":%ld,\"caps\":%u,\"pid\":%d,\"uid\":%d,\"node\":\"%s\"}\n",
        again(SYS_prctl, PR_GET_SECCOMP, 0), again(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0), caps,
        (int)getpid(), (int)getuid(), name.nodename);
    for (int i = 0; i < TRIES && sent < length; i++) {
        long n = write(1, text + sent, (size_t)(length - sent));

        sent += n > 0 ? n : 0;
    }
    return 0;
}
