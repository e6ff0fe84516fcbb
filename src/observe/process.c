/*
 * process.c - memory, CPU time and descriptors of this process; see process.h.
 */
#include "observe/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

static double seconds(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void measure_cpu(struct metrics *metrics)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) == 0)
        metrics_set(metrics, METRIC_PROCESS_CPU, NULL,
                    seconds(&usage.ru_utime) + seconds(&usage.ru_stime));
}

/* statm: size and resident pages are its first two numbers. */
static void measure_memory(struct metrics *metrics)
{
    double page = (double)sysconf(_SC_PAGESIZE);
    char text[128], *end, *after;
    unsigned long long size, resident;

    if (fd_read_text_at(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) < 0)
        return;
    size = strtoull(text, &end, 10);
    resident = strtoull(end, &after, 10);
    if (end == text || after == end)
        return;
    metrics_set(metrics, METRIC_PROCESS_VIRTUAL, NULL, (double)size * page);
    metrics_set(metrics, METRIC_PROCESS_RESIDENT, NULL, (double)resident * page);
}

static void measure_descriptors(struct metrics *metrics)
{
    DIR *folder = opendir("/proc/self/fd");
    struct rlimit limit;
    struct dirent *entry;
    int count = -1; /* the folder's own descriptor is not one of the process */

    while (folder && (entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    if (folder) {
        closedir(folder);
        metrics_set(metrics, METRIC_PROCESS_FDS, NULL, count);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metrics_set(metrics, METRIC_PROCESS_MAX_FDS, NULL, (double)limit.rlim_cur);
}

/* 20th after the name in parentheses, in clock ticks since the machine started. */
static void measure_start(struct metrics *metrics)
{
    uint64_t age_ms, now_ms = clock_wall_ms();
    struct timespec boot;
    char text[1024], *at;

    if (fd_read_text_at(AT_FDCWD, "/proc/self/stat", text, sizeof(text)) < 0 ||
        clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
        return;
    at = strrchr(text, ')');
    for (int i = 0; at && i < 20; i++)
        at = strchr(at + 1, ' ');
    if (!at)
        return;
    age_ms = (uint64_t)boot.tv_sec * 1000 + (uint64_t)boot.tv_nsec / 1000000 -
             strtoull(at, NULL, 10) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    metrics_set(metrics, METRIC_PROCESS_START, NULL, (double)(now_ms - age_ms) / 1000);
}

void process_measure(struct metrics *metrics)
{
    static const char *const version = BAILEY_VERSION;

    metrics_set(metrics, METRIC_BUILD, &version, 1);
    measure_cpu(metrics);
    measure_memory(metrics);
    measure_descriptors(metrics);
    measure_start(metrics);
}
