/*
 * json_count.c - linked into bailey-engine-counted in front of jansson and
 * of model/json.h (ld --wrap): writes down
 * each JSON document that the program parses or writes, and who asked for it. For
 * tests/scenario/test_json_budget.py. A preloaded library would not do, as the daemon passes on
 * nothing but its settings to the broker.
 *
 * Each call of jansson by a broker is a line on standard error, which is the daemon's log:
 *
 *   json_count parse|write CALLER CALLER ...
 *
 * The callers are offsets into the program, innermost first, found by frame pointers (the build has
 * them).
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/json.h"
#include "model/text.h"

#define CALLERS 6

extern const char __executable_start, etext; /* of the linker */
static bool is_broker, is_inside;

/* The launcher starts a broker from a copy of the program in memory; commands come from the disk.
 */
__attribute__((constructor)) static void begin(void)
{
    char path[64] = "";

    if (readlink("/proc/self/exe", path, sizeof(path) - 1) > 0)
        is_broker = strncmp(path, "/memfd:", strlen("/memfd:")) == 0;
}

/* frame: of the wrapper that was called. */
static void tell(const char *what, void **frame)
{
    char line[300];
    int length;

    if (!is_broker)
        return;
    length = snprintf(line, sizeof(line), "json_count %s", what);
    for (int i = 0; i < CALLERS && frame; i++) {
        const char *caller = frame[1];

        if (caller < &__executable_start || caller >= &etext)
            break;
        length += snprintf(line + length, sizeof(line) - (size_t)length, " %zx",
                           (size_t)(caller - &__executable_start));
        frame = (void **)frame[0] > frame ? frame[0] : NULL;
    }
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)length) < 0)
        abort();
}

/*
 * The wrapper of a function: what --wrap calls instead of it. One that another of them calls is not
 * another document.
 */
#define WRAP(type, name, what, parameters, arguments) \
    type __real_##name parameters;                    \
    type __wrap_##name parameters;                    \
    type __wrap_##name parameters                     \
    {                                                 \
        bool was_inside = is_inside;                  \
        type result;                                  \
                                                      \
        if (!was_inside)                              \
            tell(what, __builtin_frame_address(0));   \
        is_inside = true;                             \
        result = __real_##name arguments;             \
        is_inside = was_inside;                       \
        return result;                                \
    }

WRAP(json_t *, json_parse, "parse",
     (const char *text, size_t length, size_t flags, struct json_problem *problem),
     (text, length, flags, problem))
WRAP(json_t *, json_parse_within, "parse",
     (const char *text, size_t length, size_t flags, size_t *left, struct json_problem *problem),
     (text, length, flags, left, problem))
WRAP(int, text_of_json, "write", (json_t * json, size_t flags, struct buf *to), (json, flags, to))
WRAP(json_t *, json_loads, "parse", (const char *text, size_t flags, json_error_t *error),
     (text, flags, error))
WRAP(json_t *, json_loadb, "parse",
     (const char *text, size_t length, size_t flags, json_error_t *error),
     (text, length, flags, error))
WRAP(json_t *, json_load_callback, "parse",
     (json_load_callback_t callback, void *data, size_t flags, json_error_t *error),
     (callback, data, flags, error))
WRAP(json_t *, json_loadf, "parse", (FILE * file, size_t flags, json_error_t *error),
     (file, flags, error))
WRAP(json_t *, json_loadfd, "parse", (int fd, size_t flags, json_error_t *error),
     (fd, flags, error))
WRAP(json_t *, json_load_file, "parse", (const char *path, size_t flags, json_error_t *error),
     (path, flags, error))
WRAP(char *, json_dumps, "write", (const json_t *json, size_t flags), (json, flags))
WRAP(size_t, json_dumpb, "write", (const json_t *json, char *to, size_t size, size_t flags),
     (json, to, size, flags))
WRAP(int, json_dump_callback, "write",
     (const json_t *json, json_dump_callback_t callback, void *data, size_t flags),
     (json, callback, data, flags))
WRAP(int, json_dumpf, "write", (const json_t *json, FILE *file, size_t flags), (json, file, flags))
WRAP(int, json_dumpfd, "write", (const json_t *json, int fd, size_t flags), (json, fd, flags))
WRAP(int, json_dump_file, "write", (const json_t *json, const char *path, size_t flags),
     (json, path, flags))
