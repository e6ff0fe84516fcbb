/* format.c - sizes and times for people; see format.h. */
#include "cli/client/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

void format_bytes(uint64_t bytes, char text[FORMAT_SIZE])
{
    static const char *const units[] = {"KB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < KIB) {
        str_format(text, FORMAT_SIZE, "%llu B", (unsigned long long)bytes);
        return;
    }
    for (; value >= 1023.95 && unit + 1 < ARRAY_SIZE(units); unit++)
        value /= 1024;
    str_format(text, FORMAT_SIZE, "%.1f %s", value, units[unit]);
}

void format_span(int64_t seconds, char text[FORMAT_SIZE])
{
    if (seconds < 0)
        seconds = 0;
    if (seconds < 120)
        str_format(text, FORMAT_SIZE, "%llds", (long long)seconds);
    else if (seconds < 7200)
        str_format(text, FORMAT_SIZE, "%lldm", (long long)seconds / 60);
    else if (seconds < 2 * 86400)
        str_format(text, FORMAT_SIZE, "%lldh", (long long)seconds / 3600);
    else
        str_format(text, FORMAT_SIZE, "%lldd", (long long)seconds / 86400);
}

int format_parse_time(const char *rfc3339, int64_t *ret_s)
{
    struct tm tm = {0};
    int length = 0;

    if (sscanf(rfc3339, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &length) != 6 ||
        length < 19)
        return -EINVAL;
    if (rfc3339[length] == '.')
        length += 1 + (int)strspn(rfc3339 + length + 1, "0123456789");
    if (!str_equal(rfc3339 + length, "Z") || tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
        tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return -EINVAL;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_s = timegm(&tm);
    return 0;
}

int64_t format_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

void format_when(const char *rfc3339, int64_t now_s, char text[FORMAT_SIZE])
{
    char span[FORMAT_SIZE];
    int64_t then_s;

    if (!rfc3339 || format_parse_time(rfc3339, &then_s) < 0) {
        str_copy(text, FORMAT_SIZE, "-");
        return;
    }
    format_span(then_s > now_s ? then_s - now_s : now_s - then_s, span);
    if (then_s > now_s)
        str_format(text, FORMAT_SIZE, "in %.40s", span);
    else if (then_s == now_s)
        str_copy(text, FORMAT_SIZE, "now");
    else
        str_format(text, FORMAT_SIZE, "%.40s ago", span);
}

void format_id(const char *id, size_t length, char text[FORMAT_SIZE])
{
    str_format(text, FORMAT_SIZE, "%.*s", (int)MIN(length, (size_t)FORMAT_SIZE - 1), id);
}
