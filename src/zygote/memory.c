/*
 * memory.c - a zygote's address space, arranged so that forking it costs little.
 *
 * A fork copies the list of mappings and the page tables of those that were written. So
 *   - Python's arenas, which hold its objects, lie side by side on huge pages: one entry for 2 MB
 *     instead of 512. (PYTHONMALLOC=malloc with glibc's huge pages does the same and makes every
 *     program that works with objects 40 % slower.)
 *   - the heap and whatever else is large enough is collapsed to huge pages once;
 *   - of the five mappings of a shared library the constant ones are joined with its code, and its
 *     relocated table with its data: two or three are left. Read-only pages protect nothing in a
 *     process that runs the guest's own code; isolation does not depend on them.
 *   - the interpreter's own code, which every kernel runs, is copied to huge pages: a kernel finds
 *     it mapped, instead of one fault for every 16 pages of the file.
 * Figures: docs/design/2026-11-15-fork-cost.md. After the fork a kernel allocates new memory like
 * any Python.
 */
#include "zygote/memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define HUGE_PAGE (2 * MIB)
#define ARENAS_MAX (512 * MIB) /* addresses, not memory */
#define MAPS_MAX (4 * MIB)     /* largest /proc/self/maps */

/* Python's own struct, the same in every version from 3.4 on; not in the limited API, so weak. */
struct arena_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *arena, size_t size);
};
extern void PyObject_SetArenaAllocator(struct arena_allocator *allocator) __attribute__((weak));
extern void PyOS_AfterFork_Child(void);

static struct {
    char *start, *next, *end; /* after `end` arenas may be anywhere */
} arenas;

static void *arena_alloc(void *ctx, size_t size)
{
    void *arena = arenas.next;

    (void)ctx;
    if (size <= (size_t)(arenas.end - arenas.next)) {
        arenas.next += size;
        return arena;
    }
    arena = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return arena == MAP_FAILED ? NULL : arena;
}

static void arena_free(void *ctx, void *arena, size_t size)
{
    (void)ctx;
    if ((char *)arena >= arenas.start && (char *)arena < arenas.end)
        madvise(arena, size, MADV_DONTNEED);
    else
        munmap(arena, size);
}

static char *up(char *address)
{
    return (char *)(((uintptr_t)address + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
}

void memory_arenas(void)
{
    struct arena_allocator allocator = {.alloc = arena_alloc, .free = arena_free};
    char *space;

    if (!PyObject_SetArenaAllocator)
        return;
    space = mmap(NULL, ARENAS_MAX + HUGE_PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return;
    arenas.start = arenas.next = up(space);
    arenas.end = arenas.start + ARENAS_MAX;
    if (arenas.start > space)
        munmap(space, (size_t)(arenas.start - space));
    munmap(arenas.end, (size_t)(space + ARENAS_MAX + HUGE_PAGE - arenas.end));
    madvise(arenas.start, ARENAS_MAX, MADV_HUGEPAGE);
    PyObject_SetArenaAllocator(&allocator);
}

/* ---- mappings ---- */

struct mapping {
    char *start, *end;
    uint64_t offset, inode; /* inode 0: no file */
    int protection;
    bool is_private, is_heap;
};

static size_t length_of(const struct mapping *mapping)
{
    return (size_t)(mapping->end - mapping->start);
}

static bool parse(const char *line, struct mapping *ret)
{
    unsigned long long start, end, offset, inode;
    char flags[5], name[8] = "";

    if (sscanf(line, "%llx-%llx %4s %llx %*s %llu %7s", &start, &end, flags, &offset, &inode,
               name) < 5)
        return false;
    *ret = (struct mapping){
        .start = (char *)(uintptr_t)start,
        .end = (char *)(uintptr_t)end,
        .offset = offset,
        .inode = inode,
        .protection = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
                      (flags[2] == 'x' ? PROT_EXEC : 0),
        .is_private = flags[3] == 'p',
        .is_heap = strcmp(name, "[heap]") == 0 || (inode == 0 && name[0] == 0),
    };
    return true;
}

/* All mappings, in order; the caller frees them. */
static struct mapping *read_mappings(size_t *ret_count)
{
    CLEANUP(freep) char *text = malloc(MAPS_MAX);
    CLEANUP(freep) struct mapping *found = NULL;
    CLEANUP(fd_closep) int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t count = 0, room = 0;
    ssize_t length = fd < 0 || !text ? -1 : fd_read_all(fd, text, MAPS_MAX - 1);

    if (length <= 0)
        return NULL;
    text[length] = 0;
    for (char *line = text; *line; line++)
        room += *line == '\n';
    found = calloc(room + 1, sizeof(*found));
    for (char *line = text; found && line && *line;) {
        char *end = strchr(line, '\n');

        if (end)
            *end = 0;
        if (count < room && parse(line, &found[count]))
            count++;
        line = end ? end + 1 : NULL;
    }
    *ret_count = count;
    return ptr_take(&found);
}

/*
 * The same file, adjacent in memory and in the file: with equal permissions the kernel merges them.
 */
static bool is_continued(const struct mapping *first, const struct mapping *second)
{
    return first->inode && first->inode == second->inode && first->is_private &&
           second->is_private && first->end == second->start &&
           first->offset + length_of(first) == second->offset;
}

static void protect(struct mapping *mapping, int protection)
{
    if (mprotect(mapping->start, length_of(mapping), protection) == 0)
        mapping->protection = protection;
}

static void join(struct mapping *maps, size_t count)
{
    const int code = PROT_READ | PROT_EXEC, data = PROT_READ | PROT_WRITE;

    for (size_t i = 0; i + 1 < count; i++) {
        if (!is_continued(&maps[i], &maps[i + 1]))
            continue;
        if (maps[i].protection == PROT_READ && maps[i + 1].protection == data)
            protect(&maps[i], data);
        else if (maps[i].protection == PROT_READ && maps[i + 1].protection == code)
            protect(&maps[i], code);
        else if (maps[i].protection == code && maps[i + 1].protection == PROT_READ &&
                 !(i + 2 < count && maps[i + 2].protection == data &&
                   is_continued(&maps[i + 1], &maps[i + 2])))
            protect(&maps[i + 1], code);
    }
}

static void collapse(const struct mapping *maps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *start = up(maps[i].start), *end = up(maps[i].end - HUGE_PAGE + 1);

        if (maps[i].is_heap && maps[i].is_private && maps[i].protection & PROT_WRITE && start < end)
            madvise(start, (size_t)(end - start), MADV_COLLAPSE);
    }
}

/* Copies whole huge pages of it; on any error the file mapping stays. */
static void lift(char *start, char *end)
{
    size_t length = (size_t)(end - start);
    char *space = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *copy = up(space);

    if (space == MAP_FAILED)
        return;
    if (madvise(copy, length, MADV_HUGEPAGE) == 0) {
        memcpy(copy, start, length);
        if (mprotect(copy, length, PROT_READ | PROT_EXEC) == 0)
            mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, start);
    }
    munmap(space, length + HUGE_PAGE); /* unmaps the rest */
}

static void lift_interpreter(const struct mapping *maps, size_t count)
{
    const char *code = (const char *)(uintptr_t)PyOS_AfterFork_Child;

    for (size_t i = 0; i < count; i++) {
        char *start = up(maps[i].start), *end = up(maps[i].end - HUGE_PAGE + 1);

        if (maps[i].protection == (PROT_READ | PROT_EXEC) && maps[i].is_private &&
            code >= maps[i].start && code < maps[i].end && start < end)
            lift(start, end);
    }
}

void memory_settle(void)
{
    CLEANUP(freep) struct mapping *maps = NULL;
    size_t count = 0;
    char *used = up(arenas.next);

    if (arenas.start && used < arenas.end) {
        munmap(used, (size_t)(arenas.end - used));
        arenas.end = used;
    }
    maps = read_mappings(&count);
    if (!maps)
        return;
    join(maps, count);
    collapse(maps, count);
    free(ptr_take(&maps));
    maps = read_mappings(&count); /* read again after merging */
    if (maps)
        lift_interpreter(maps, count);
}
