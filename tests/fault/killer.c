/*
 * killer.c - runs a command and kills its warden at the Nth step of the protocol.
 *
 *     killer N REPORT -- PROGRAM ARGS...
 *
 * A tracer: all tasks of the command run free but one, the first child that is PID 1 of a pid
 * namespace, or, where there is none, the first child. That one stops at each call that sends to or
 * receives from a socket; at the start of the Nth it gets SIGKILL. REPORT then holds the name of
 * the call, or "not reached". Our exit status is the command's (128+n for a signal).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS                                                                               \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
     PTRACE_O_EXITKILL)

static pid_t command, warden;
static long step, steps_wanted;
static const char *reached;

/* The last number of NSpid: the pid in the task's own namespace; *depth counts the namespaces. */
static int inner_pid(pid_t pid, int *depth)
{
    char path[64], line[256], *at, *rest;
    int inner = 0;
    FILE *file;

    *depth = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "NSpid:", 6) != 0)
            continue;
        for (at = strtok_r(line + 6, " \t\n", &rest); at; at = strtok_r(NULL, " \t\n", &rest)) {
            inner = (int)strtol(at, NULL, 10);
            (*depth)++;
        }
    }
    if (file)
        fclose(file);
    return inner;
}

static int is_warden(pid_t pid)
{
    static int own_depth;
    int depth;

    if (warden || pid == command)
        return 0;
    if (!own_depth)
        inner_pid(getpid(), &own_depth);
    if (inner_pid(pid, &depth) == 1 && depth > own_depth)
        return 1;
    return getenv("KILLER_FIRST_CHILD") != NULL;
}

static int is_socket(pid_t pid, unsigned long long fd)
{
    char path[64], target[64] = "";

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)fd);
    if (readlink(path, target, sizeof(target) - 1) < 0)
        return 0;
    return strncmp(target, "socket:", 7) == 0;
}

/* A name when the call speaks the protocol, else NULL. */
static const char *protocol_call(pid_t pid, const struct __ptrace_syscall_info *info)
{
    switch (info->entry.nr) {
    case SYS_sendmsg:
        return "sendmsg";
    case SYS_recvmsg:
        return "recvmsg";
    case SYS_sendto:
        return "sendto";
    case SYS_recvfrom:
        return "recvfrom";
    case SYS_read:
        return is_socket(pid, info->entry.args[0]) ? "read" : NULL;
    case SYS_write:
        return is_socket(pid, info->entry.args[0]) ? "write" : NULL;
    default:
        return NULL;
    }
}

/* At a system call stop of the warden: counts, and kills when the time has come. */
static void look(pid_t pid)
{
    struct __ptrace_syscall_info info;
    const char *name;

    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0)
        return;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
        return;
    name = protocol_call(pid, &info);
    if (name && ++step == steps_wanted) {
        reached = name;
        kill(pid, SIGKILL);
    }
}

/* One stop of one task; the signal it is to be continued with. */
static int stopped(pid_t pid, int status)
{
    int signal = WSTOPSIG(status);

    if (is_warden(pid))
        warden = pid;
    if (signal == (SIGTRAP | 0x80)) {
        if (pid == warden)
            look(pid);
        return 0;
    }
    if (status >> 16)
        return 0;
    return signal;
}

static int trace(void)
{
    int status, ret = 1;

    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        int signal;

        if (pid < 0)
            return errno == ECHILD ? ret : 111;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == command)
                ret = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        signal = stopped(pid, status);
        ptrace(pid == warden ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, signal);
    }
}

int main(int argc, char **argv)
{
    FILE *report;
    int ret, status;

    if (argc < 5 || strcmp(argv[3], "--") != 0)
        return 111;
    steps_wanted = strtol(argv[1], NULL, 10);
    command = fork();
    if (command == 0) {
        raise(SIGSTOP);
        execv(argv[4], argv + 4);
        _exit(111);
    }
    waitpid(command, &status, WUNTRACED);
    if (ptrace(PTRACE_SEIZE, command, 0, OPTIONS) < 0)
        return 111;
    kill(command, SIGCONT);
    ret = trace();
    report = fopen(argv[2], "we");
    if (report) {
        fprintf(report, "%s\n", reached ? reached : "not reached");
        fclose(report);
    }
    return ret;
}
