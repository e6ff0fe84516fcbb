/*
 * place.c - where this user's daemon is: as it wrote that down in its state folder, else the
 * default place of its socket.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/lib_private.h"

#define PATH_BYTES 4096

static const char *absolute(const char *name)
{
    const char *value = env_text(environ, name);

    return value && value[0] == '/' ? value : NULL;
}

static bool find_state(char path[PATH_BYTES])
{
    const char *own = env_text(environ, "BAILEY_STATE_DIR");
    const char *xdg = absolute("XDG_STATE_HOME"), *home = absolute("HOME");

    if (own)
        return str_copy(path, PATH_BYTES, own);
    if (xdg)
        return str_format(path, PATH_BYTES, "%s/bailey", xdg) == 0;
    if (home)
        return str_format(path, PATH_BYTES, "%s/.local/state/bailey", home) == 0;
    return geteuid() == 0 && str_copy(path, PATH_BYTES, "/var/lib/bailey");
}

static bool answers(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CLEANUP(fd_closep) int fd = -1;

    if (!str_copy(address.sun_path, sizeof(address.sun_path), path))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool read_record(const char *state, char path[PATH_BYTES])
{
    char file[PATH_BYTES + 16];
    json_t *record;
    bool is_there;

    str_format(file, sizeof(file), "%s/daemon.json", state);
    record = json_load_file(file, 0, NULL);
    is_there = str_format(path, PATH_BYTES, "%s",
                          json_is_string(json_object_get(record, "socket"))
                              ? json_string_value(json_object_get(record, "socket"))
                              : "") == 0 &&
               path[0];
    json_decref(record);
    return is_there;
}

static bool default_socket(const char *state, char path[PATH_BYTES])
{
    const char *runtime = absolute("XDG_RUNTIME_DIR");

    if (runtime)
        return str_format(path, PATH_BYTES, "%s/bailey/engine.sock", runtime) == 0;
    return state[0] && str_format(path, PATH_BYTES, "%s/run/engine.sock", state) == 0;
}

int place_find(char **ret, struct error *err)
{
    char state[PATH_BYTES] = "", path[PATH_BYTES] = "";
    bool is_found;

    if (!find_state(state))
        state[0] = '\0';
    is_found = state[0] && read_record(state, path) && answers(path);
    if (!is_found)
        is_found = default_socket(state, path) && answers(path);
    if (!is_found)
        return error_set(err, -ECONNREFUSED, ERROR_NO_DAEMON,
                         "no server is named (BAILEY_URL), and no daemon listens on '%.300s'; "
                         "'bailey session new' starts one, and bailey_open_local() needs none",
                         path);
    return asprintf(ret, "unix://%s", path) < 0 ? error_memory(err) : 0;
}
