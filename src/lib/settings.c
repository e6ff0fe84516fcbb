/*
 * settings.c - what the caller's environment sets, for a server: the header Bailey-Settings, as the
 * command line and the other SDKs send it (docs/configuration.md).
 *
 * Keys of a daemon go to the local one only, which has to agree with them; paths of interpreters to
 * a server of this machine only.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"
#include "lib/lib_private.h"

static bool is_sent(const struct config_row *row, bool is_named)
{
    return row->place == PLACE_CALL || row->place == PLACE_SESSION ||
           (row->place == PLACE_DAEMON && !is_named);
}

/* A program's name becomes its path here; what is not found is sent as it is, and refused there. */
static const char *find_program(const char *name, char path[PATH_MAX])
{
    const char *folder = env_text(environ, "PATH");

    while (folder && !strchr(name, '/')) {
        const char *end = strchrnul(folder, ':');

        if (str_format(path, PATH_MAX, "%.*s/%s", (int)(end - folder), folder, name) == 0 &&
            path[0] == '/' && access(path, X_OK) == 0)
            return path;
        folder = *end ? end + 1 : NULL;
    }
    return name;
}

static int add(json_t *settings, int key, bool is_here)
{
    const char *name = config_table[key].env;
    const char *value = name ? env_text(environ, name) : NULL;
    bool is_program = key == KEY_PYTHON || key == KEY_NODE;
    char path[PATH_MAX];

    if (!value || (is_program && !is_here))
        return 0;
    if (is_program)
        value = find_program(value, path);
    return json_object_set_new(settings, name, json_string(value));
}

int settings_line(bool is_named, bool is_here, char **ret, struct error *err)
{
    json_t *settings = json_object();
    CLEANUP(freep) char *text = NULL;
    int r = settings ? 0 : -1;

    for (int key = 0; key < _KEY_MAX && r == 0; key++) {
        if (is_sent(&config_table[key], is_named))
            r = add(settings, key, is_here);
    }
    *ret = NULL;
    if (r == 0 && json_object_size(settings) > 0) {
        text = json_dumps(settings, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_SORT_KEYS);
        if (!text || asprintf(ret, "Bailey-Settings: %s", text) < 0)
            r = -1;
    }
    json_decref(settings);
    if (r < 0)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "a SANDBOX_* variable of the environment is not UTF-8, or there is no "
                         "memory for it");
    return 0;
}
