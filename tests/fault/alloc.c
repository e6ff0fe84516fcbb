/*
 * alloc.c - makes allocation number N fail, in a program linked with -Dfault=true (ld --wrap).
 *
 *   BAILEY_FAIL_ALLOC=7          the seventh allocation of each process fails
 *   BAILEY_FAIL_ALLOC=7+         the seventh and all that follow
 *   BAILEY_FAIL_ALLOC_REPORT=F   F gets two native 32-bit numbers: how many allocations were made
 * to fail, in all processes together, and the most that one process made
 *
 * Each process counts for itself from 1: a fork starts again at 0, noticed by its pid, so that the
 * Nth allocation behind the clone can be hit as well as the Nth before it. The report is a shared
 * mapping made before main(): it works in a box that has neither the file nor a descriptor of it.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);

struct report {
    _Atomic unsigned int failed;
    _Atomic unsigned int most;
};

static unsigned long fail_at; /* 0: never */
static bool and_all_after;
static struct report *report;

static unsigned long count;
static pid_t counted_pid;
static int depth; /* strdup calls malloc: one allocation, counted once */

__attribute__((constructor)) static void read_environment(void)
{
    const char *number = getenv("BAILEY_FAIL_ALLOC");
    const char *path = getenv("BAILEY_FAIL_ALLOC_REPORT");
    char *end = NULL;
    int fd;

    count = 0; /* what libc itself needed on the way here is not ours */
    if (number) {
        fail_at = strtoul(number, &end, 10);
        and_all_after = *end == '+';
    }
    if (!path)
        return;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    if (ftruncate(fd, sizeof(struct report)) == 0) {
        void *map = mmap(NULL, sizeof(struct report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        report = map == MAP_FAILED ? NULL : map;
    }
    close(fd);
}

static bool must_fail(void)
{
    pid_t pid = getpid();
    bool fails;

    if (depth > 0)
        return false;
    if (pid != counted_pid) {
        counted_pid = pid;
        count = 0;
    }
    count++;
    fails = fail_at > 0 && (count == fail_at || (and_all_after && count > fail_at));
    if (report) {
        if (fails)
            atomic_fetch_add(&report->failed, 1);
        if (count > atomic_load(&report->most))
            atomic_store(&report->most, (unsigned int)count);
    }
    return fails;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t number, size_t size)
{
    return must_fail() ? NULL : __real_calloc(number, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return must_fail() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t number, size_t size)
{
    void *new;

    if (must_fail())
        return NULL;
    depth++;
    new = __real_reallocarray(old, number, size);
    depth--;
    return new;
}

char *__wrap_strdup(const char *text)
{
    char *copy;

    if (must_fail())
        return NULL;
    depth++;
    copy = __real_strdup(text);
    depth--;
    return copy;
}

char *__wrap_strndup(const char *text, size_t length)
{
    char *copy;

    if (must_fail())
        return NULL;
    depth++;
    copy = __real_strndup(text, length);
    depth--;
    return copy;
}
