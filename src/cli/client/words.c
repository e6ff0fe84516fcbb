/* words.c - sizes and times in words; see words.h. */
#include "cli/client/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

void words_bytes(uint64_t bytes, char text[WORDS_SIZE])
{
    static const char *const units[] = {"KB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < KIB) {
        str_format(text, WORDS_SIZE, "%llu B", (unsigned long long)bytes);
        return;
    }
    for (; value >= 1023.95 && unit + 1 < ARRAY_SIZE(units); unit++)
        value /= 1024;
    str_format(text, WORDS_SIZE, "%.1f %s", value, units[unit]);
}

void words_span(int64_t seconds, char text[WORDS_SIZE])
{
    if (seconds < 0)
        seconds = 0;
    if (seconds < 120)
        str_format(text, WORDS_SIZE, "%llds", (long long)seconds);
    else if (seconds < 7200)
        str_format(text, WORDS_SIZE, "%lldm", (long long)seconds / 60);
    else if (seconds < 2 * 86400)
        str_format(text, WORDS_SIZE, "%lldh", (long long)seconds / 3600);
    else
        str_format(text, WORDS_SIZE, "%lldd", (long long)seconds / 86400);
}

int words_time(const char *rfc3339, int64_t *ret_s)
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

int64_t words_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

void words_when(const char *rfc3339, int64_t now_s, char text[WORDS_SIZE])
{
    char span[WORDS_SIZE];
    int64_t then_s;

    if (!rfc3339 || words_time(rfc3339, &then_s) < 0) {
        str_copy(text, WORDS_SIZE, "-");
        return;
    }
    words_span(then_s > now_s ? then_s - now_s : now_s - then_s, span);
    if (then_s > now_s)
        str_format(text, WORDS_SIZE, "in %.40s", span);
    else if (then_s == now_s)
        str_copy(text, WORDS_SIZE, "now");
    else
        str_format(text, WORDS_SIZE, "%.40s ago", span);
}

void words_id(const char *id, size_t length, char text[WORDS_SIZE])
{
    str_format(text, WORDS_SIZE, "%.*s", (int)MIN(length, (size_t)WORDS_SIZE - 1), id);
}
