/*
 * kernel_memory.c - kernel memory that guests can take and no control group counts: sockets that
 * the network stack makes by itself, and file locks.
 *
 * Connections that wait in a listener's queue, sockets in TIME_WAIT and what a datagram socket
 * holds are allocated outside of any process, so no memory limit sees them. They are counted in the
 * network namespace instead (/proc/net/sockstat), at every tick of the warden's clock. File locks
 * can only be counted by reading /proc/locks, which stops every locker of the machine for a
 * moment: it is read only when unreclaimable kernel memory (SUnreclaim) has just grown.
 *
 * The numbers are bounds, no quotas: a program that needs more than these in one box is an attack
 * or broken. What is refused by the system call filter needs no watching (sandbox/filter_table.h).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "warden/warden_private.h"

#define TEXT_BYTES 4096

/* A file of /proc from its beginning, as text; false: it cannot be read. */
static bool read_text(int fd, char text[TEXT_BYTES])
{
    ssize_t length = fd < 0 ? -1 : pread(fd, text, TEXT_BYTES - 1, 0);

    if (length < 0)
        return false;
    text[length] = '\0';
    return true;
}

/* The number behind `name` in the line that begins with `line`; 0 when there is none. */
static unsigned long number_of(const char *text, const char *line, const char *name)
{
    const char *at = strstr(text, line), *end = at ? strchr(at, '\n') : NULL;
    const char *found = at ? strstr(at + strlen(line), name) : NULL;

    return found && (!end || found < end) ? strtoul(found + strlen(name), NULL, 10) : 0;
}

static bool has_too_many_sockets(const struct kernel_memory *memory)
{
    char text[TEXT_BYTES];
    unsigned long tcp = 0, udp = 0, waiting = 0;

    if (read_text(memory->sockets_fd, text)) {
        tcp = number_of(text, "TCP:", " inuse ");
        waiting = number_of(text, "TCP:", " tw ");
        udp = number_of(text, "UDP:", " inuse ");
    }
    if (read_text(memory->sockets6_fd, text)) {
        tcp += number_of(text, "TCP6:", " inuse ");
        udp += number_of(text, "UDP6:", " inuse ");
    }
    return tcp > LIMIT_BOX_TCP_SOCKETS || udp > LIMIT_BOX_UDP_SOCKETS ||
           waiting > LIMIT_BOX_TIME_WAIT;
}

/* Locks of processes of this box; the file shows no others, because its mount is the box's. */
static bool has_too_many_locks(const struct kernel_memory *memory)
{
    static char data[16384];
    unsigned count = 0;
    off_t at = 0;
    ssize_t length;

    while (memory->locks_fd >= 0 && count <= LIMIT_BOX_FILE_LOCKS &&
           (length = pread(memory->locks_fd, data, sizeof(data), at)) > 0) {
        for (ssize_t i = 0; i < length; i++)
            count += data[i] == '\n';
        at += length;
    }
    return count > LIMIT_BOX_FILE_LOCKS;
}

static int open_below(int proc_fd, const char *name)
{
    return proc_fd < 0 ? -1 : openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
}

void kernel_memory_open(struct kernel_memory *memory, const struct sandbox *sandbox)
{
    /* The warden's own /proc: what guests see of it is masked. */
    memory->sockets_fd = open_below(sandbox->proc_fd, "self/net/sockstat");
    memory->sockets6_fd = open_below(sandbox->proc_fd, "self/net/sockstat6");
    memory->machine_fd = open_below(sandbox->proc_fd, "meminfo");
    memory->locks_fd = open_below(sandbox->proc_fd, "locks");
}

bool kernel_memory_is_over(struct kernel_memory *memory)
{
    char text[TEXT_BYTES];
    unsigned long kib = 0;
    bool has_grown = false;

    if (read_text(memory->machine_fd, text))
        kib = number_of(text, "SUnreclaim:", "");
    if (kib < memory->least_kib || memory->least_kib == 0)
        memory->least_kib = kib;
    if (kib > memory->least_kib + LIMIT_BOX_KERNEL_GROWTH / KIB) {
        has_grown = true;
        memory->least_kib = kib; /* looked at; from here on again */
    }
    return has_too_many_sockets(memory) || (has_grown && has_too_many_locks(memory));
}
