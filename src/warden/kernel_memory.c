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
 * /proc/locks does not show locks by flock() whose taker has ended, and they stay as long as the
 * open file does: in a table of descriptors or in a mapping. So open files are counted too, which
 * are the most such locks that there can be. Descriptors are counted by the size of /proc/PID/fd,
 * mappings by the lines of /proc/PID/maps, which the kernel shows to a reader with the
 * process's ids. A process that hides them (it is not dumpable) counts as if every page of its
 * address space were a mapping. Files in flight between sockets are bounded by RLIMIT_NOFILE.
 *
 * In a container /proc/locks is covered for the warden too: process_locks.c counts them there,
 * which takes longer the more files are open, so those are counted first. A process that hides its
 * locks may run until the machine's kernel memory has grown further.
 *
 * The numbers are bounds, no quotas: a program that needs more than these in one box is an attack
 * or broken. What is refused by the system call filter needs no watching (sandbox/filter_table.h).
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "warden/warden_private.h"

#define TEXT_BYTES 4096
#define LOCKS_MS 200         /* for reading /proc/locks once: it is slow when there are very many */
#define LOCKS_MORE_MS 5000   /* on top, if many are of this box */
#define MAPPINGS_MAX 65530UL /* of one process: the kernel's vm.max_map_count */

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

static int open_below(int proc_fd, const char *name)
{
    return proc_fd < 0 ? -1 : openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
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

static uint64_t now_ms(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static unsigned count_lines(const char *text, ssize_t length)
{
    unsigned count = 0;
    const char *end = text + length;

    for (const char *line = text, *next; line < end; line = next) {
        next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next + 1 : end;
        count += !memmem(line, (size_t)(next - line), "OFDLCK", strlen("OFDLCK"));
    }
    return count;
}

/*
 * Locks of processes of this box: the file shows no others, because its mount is the box's, but for
 * F_OFD_* locks, which guests cannot take. Each read begins at the first lock of the machine again,
 * hidden ones too, and waits for every locker; so the time is bounded. False: it was over.
 */
static bool count_locks(const struct sandbox *sandbox, unsigned *ret_count)
{
    static char data[16384];
    CLEANUP(fd_closep) int fd = open_below(sandbox->proc_fd, "locks");
    uint64_t end = now_ms() + LOCKS_MS;
    ssize_t length;

    *ret_count = 0;
    while (fd >= 0 && *ret_count <= LIMIT_BOX_FILE_LOCKS &&
           (length = read(fd, data, sizeof(data))) > 0) {
        *ret_count += count_lines(data, length);
        if (now_ms() > end + (*ret_count > LIMIT_BOX_FILE_LOCKS / 8 ? LOCKS_MORE_MS : 0))
            return false;
    }
    return true;
}

/* VMA lines of a process that belong to files: those have an inode. `most` ends the count. */
static unsigned long count_mapped(int proc_fd, const char *pid, unsigned long most)
{
    static char line[512]; /* longer lines come in parts, of which only the first can match */
    char path[64];
    unsigned long count = 0, inode;
    CLEANUP(fd_closep) int fd = -1;
    FILE *file = NULL;

    if (str_format(path, sizeof(path), "%s/maps", pid) < 0)
        return 0;
    fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file)
        return most;
    fd = -1;
    for (bool is_begun = true; count < most && fgets(line, sizeof(line), file);) {
        count += is_begun && sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1 && inode != 0;
        is_begun = strchr(line, '\n') != NULL;
    }
    fclose(file);
    return count;
}

static unsigned long count_descriptors(int proc_fd, const char *pid)
{
    char path[64];
    struct stat status;
    DIR *folder;
    unsigned long count = 0;
    int fd;

    if (str_format(path, sizeof(path), "%s/fd", pid) < 0 || fstatat(proc_fd, path, &status, 0) < 0)
        return 0;
    if (status.st_size > 0)
        return (unsigned long)status.st_size;
    fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* before Linux 6.2 */
    folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder)
        fd_closep(&fd);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* The memory that is one process's alone, in bytes; *ret_pages: of its whole address space. */
static uint64_t own_memory(int proc_fd, const char *pid, unsigned long *ret_pages)
{
    char path[64], text[256];
    unsigned long size = 0, resident = 0, shared = 0;

    *ret_pages = 0;
    if (str_format(path, sizeof(path), "%s/statm", pid) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0 ||
        sscanf(text, "%lu %lu %lu", &size, &resident, &shared) != 3)
        return 0;
    *ret_pages = size;
    return (uint64_t)(resident > shared ? resident - shared : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Descriptors and mappings of one process; `most` ends the count. */
static unsigned long count_files(int proc_fd, const char *pid, unsigned long most)
{
    unsigned long pages, count;
    struct stat owner;
    int uid, gid; /* of the caller: process_locks.c reads with those of another process */

    if (fstatat(proc_fd, pid, &owner, 0) < 0)
        return 0;
    own_memory(proc_fd, pid, &pages); /* a mapping has at least one page */
    gid = setfsgid(owner.st_gid);
    uid = setfsuid(owner.st_uid);
    count = count_descriptors(proc_fd, pid);
    most = count < most ? MIN(most - count, MAPPINGS_MAX) : 0;
    count += count_mapped(proc_fd, pid, MIN(most, pages));
    setfsuid((uid_t)uid);
    setfsgid((gid_t)gid);
    return count;
}

static bool is_guest(const struct dirent *entry)
{
    return isdigit((unsigned char)entry->d_name[0]) && strtol(entry->d_name, NULL, 10) != getpid();
}

bool kernel_files_are_over(const struct sandbox *sandbox)
{
    CLEANUP(fd_closep) int fd = open_below(sandbox->proc_fd, ".");
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    unsigned long count = 0, most = LIMIT_BOX_OPEN_FILES, pages;
    uint64_t own = 0;

    if (!folder)
        return false;
    fd = -1;
    while ((entry = readdir(folder))) {
        if (is_guest(entry))
            own += own_memory(dirfd(folder), entry->d_name, &pages);
    }
    most += own / LIMIT_BOX_MORE_FILES;
    rewinddir(folder);
    while (count <= most && (entry = readdir(folder))) {
        if (is_guest(entry))
            count += count_files(dirfd(folder), entry->d_name, most + 1 - count);
    }
    closedir(folder);
    return count > most;
}

void kernel_memory_open(struct kernel_memory *memory, const struct sandbox *sandbox)
{
    /* The warden's own /proc: what guests see of it is masked. */
    memory->sockets_fd = open_below(sandbox->proc_fd, "self/net/sockstat");
    memory->sockets6_fd = open_below(sandbox->proc_fd, "self/net/sockstat6");
    memory->machine_fd = open_below(sandbox->proc_fd, "meminfo");
}

/* Whether it has grown by more than `bytes` since it was least, or since the last time it had. */
static bool has_grown(unsigned long kib, unsigned long *least_kib, unsigned long bytes)
{
    bool has = *least_kib != 0 && kib > *least_kib + bytes / KIB;

    if (has || kib < *least_kib || *least_kib == 0)
        *least_kib = kib;
    return has;
}

/* `has_grown_far`: by as much as is the most that a process may hide. */
static bool has_too_many_locks(const struct sandbox *sandbox, bool has_grown_far,
                               bool *is_suspicious)
{
    unsigned locks = 0;
    bool is_hidden;

    if (sandbox->plan->has_container)
        return kernel_files_are_over(sandbox) || process_locks_are_over(sandbox, &is_hidden) ||
               (is_hidden && has_grown_far);
    *is_suspicious |= !count_locks(sandbox, &locks);
    return locks > LIMIT_BOX_FILE_LOCKS;
}

bool kernel_memory_is_over(struct kernel_memory *memory, const struct sandbox *sandbox)
{
    char text[TEXT_BYTES];
    unsigned long kib;
    bool is_suspicious, has_grown_far;

    if (has_too_many_sockets(memory))
        return true;
    if (!read_text(memory->machine_fd, text))
        return false;
    kib = number_of(text, "SUnreclaim:", "");
    is_suspicious = has_grown(kib, &memory->files_kib, LIMIT_BOX_FILES_GROWTH);
    has_grown_far = has_grown(kib, &memory->hidden_kib, LIMIT_BOX_HIDDEN_GROWTH);
    if (has_grown(kib, &memory->locks_kib, LIMIT_BOX_KERNEL_GROWTH) &&
        has_too_many_locks(sandbox, has_grown_far, &is_suspicious))
        return true;
    return is_suspicious && kernel_files_are_over(sandbox);
}
