/* clock.c - monotonic time and UTC stamps; see clock.h. */
#include "base/clock.h"

#include <time.h>

#include "base/str.h"

uint64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t clock_thread_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

uint64_t clock_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void utc_now(struct tm *ret_tm, int *ret_millis)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, ret_tm);
    *ret_millis = (int)(now.tv_nsec / 1000000);
}

void clock_stamp(char *text, size_t size)
{
    struct tm tm;
    int millis;

    utc_now(&tm, &millis);
    str_format(text, size, "%04d%02d%02dT%02d%02d%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
               tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, millis);
}

void clock_iso(char *text, size_t size)
{
    struct tm tm;
    int millis;

    utc_now(&tm, &millis);
    str_format(text, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
               tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, millis);
}
