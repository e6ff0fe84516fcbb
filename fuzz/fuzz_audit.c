/*
 * fuzz_audit.c - a hostile audit.jsonl: it is checked, opened, written on and checked again. What
 * was not written by us never counts as intact lines of the chain.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "observe/audit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int fd_of, const char *name, const uint8_t *data, size_t size)
{
    int fd = openat(fd_of, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

static void read_all(int fd_of)
{
    const struct audit_filter all = {0};
    struct error err = {0};
    struct audit_reader *reader = audit_reader_new(fd_of, &all, UINT64_MAX, &err);
    const char *line;
    size_t length;

    while (reader && audit_reader_next(reader, &line, &length) > 0) {
        if (length == 0 || line[length - 1] != '\n')
            abort();
    }
    audit_reader_free(reader);
}

static char path[] = "/tmp/fuzz-audit-XXXXXX";
static int folder_fd = -1;

static void leave(void)
{
    unlinkat(folder_fd, "audit.head", 0);
    unlinkat(folder_fd, "audit.jsonl", 0);
    rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct audit_report before, after;
    struct error err = {0};
    struct audit *audit;

    if (folder_fd < 0) {
        if (!mkdtemp(path))
            abort();
        folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        atexit(leave);
    }
    unlinkat(folder_fd, "audit.head", 0);
    put(folder_fd, "audit.jsonl", data, size);
    if (audit_verify(folder_fd, &before, &err) < 0)
        abort();
    /* Without a head nothing of a chain is intact. */
    if (before.is_intact && before.lines > 0)
        abort();
    read_all(folder_fd);
    audit = audit_open(folder_fd);
    audit_write(audit, "test", NULL);
    audit_close(audit);
    if (audit_verify(folder_fd, &after, &err) < 0 || (audit && after.lines == 0 && after.is_intact))
        abort();
    read_all(folder_fd);
    return 0;
}
