/*
 * interpreters.c - interpreters of one box besides those that every box has; see
 * launcher_private.h.
 *
 * The broker names a program by its path, and the broker may have been taken over. So the folders
 * that the box gets are not the broker's choice: the launcher finds them itself, with its own
 * rights (after a root start those of an id that no user has), and takes only what looks like an
 * interpreter and nothing else (interpreter/python.c). Nothing may lie in the state folder, the one
 * place where the broker can write: there it could make a folder look like an interpreter, or
 * exchange it between the check and the mount. SANDBOX_INTERPRETERS is the complete list where it
 * is set; its folders were opened at the start, with the rights of the user who started the daemon.
 *
 * This reads a few files of the host and so may wait for a disk: done only for a box that asks.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

void interpreters_free(struct box_interpreters *room)
{
    for (size_t i = 0; i < ARRAY_SIZE(room->found); i++)
        interpreter_free(&room->found[i]);
}

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

/* Cuts the path to its parent folder; false when it was "/". */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash || !path[1])
        return false;
    slash[slash == path] = '\0';
    return true;
}

/* Whether one of the state folders is on the way to this path, or is it. */
static bool is_in_state(const struct launcher *launcher, const char *path)
{
    char real[PATH_MAX];

    if (!realpath(path, real))
        return true;
    do {
        struct stat here, state;

        if (stat(real, &here) < 0)
            return true;
        for (size_t i = 0; i < LAUNCHER_FOLDER_COUNT; i++)
            if (fstat(launcher->folder_fd[i], &state) < 0 ||
                (here.st_dev == state.st_dev && here.st_ino == state.st_ino))
                return true;
    } while (cut(real));
    return false;
}

static void add_bind(struct box_interpreters *room, struct launch_spec *spec, const char *host,
                     const char *box)
{
    size_t kept = 0;

    for (size_t i = 0; i < spec->bind_count; i++)
        if (is_below(box, spec->binds[i].box))
            return; /* it is shown already */
    for (size_t i = 0; i < spec->bind_count; i++)
        if (!is_below(spec->binds[i].box, box))
            room->binds[kept++] = spec->binds[i];
    room->binds[kept++] = (struct launch_bind){.host = host, .box = box};
    spec->binds = room->binds;
    spec->bind_count = kept;
}

static const struct launcher_interpreter *find_listed(const struct launcher_plan *plan,
                                                      const char *program)
{
    for (uint32_t i = 0; i < plan->interpreter_count; i++)
        if (str_equal(plan->interpreters[i].program, program))
            return &plan->interpreters[i];
    return NULL;
}

/* After a root start more is closed to the launcher than to the user who started it. */
static int closed(const struct launcher *launcher, const char *program, struct error *err)
{
    CLEANUP(freep) char *text = strdup(err->text);

    return error_set(err, -EACCES, ERROR_NO_INTERPRETER,
                     "%.300s. %s: set SANDBOX_INTERPRETERS=%.200s for the daemon, and start it "
                     "again ('bailey daemon stop' ends it)",
                     text ? text : "",
                     launcher->plan->broker_id
                         ? "The daemon was started as root and gave up root's rights"
                         : "The daemon may not enter a folder on the way to it",
                     program);
}

static int find(struct launcher *launcher, enum interpreter_kind kind, const char *program,
                struct interpreter *ret, struct error *err)
{
    int r;

    if (launcher->plan->takes_listed_only)
        return error_set(err, -EPERM, ERROR_NO_INTERPRETER,
                         "%s: '%.200s' is not one of the interpreters that this daemon allows "
                         "(SANDBOX_INTERPRETERS); name one of them, or add it there",
                         interpreter_setting(kind), program);
    if (launcher->plan->root[0]) /* it is in the box already, or is not; nothing more is shown */
        return 0;
    r = interpreter_adopt(kind, program, ret, err);
    if (r == -EACCES)
        return closed(launcher, program, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ret->bind_count; i++)
        if (is_in_state(launcher, ret->binds[i]))
            return error_set(err, -EPERM, ERROR_NO_INTERPRETER,
                             "%s: '%.200s' is in the daemon's own state folder, which boxes do not "
                             "get; use an interpreter elsewhere",
                             interpreter_setting(kind), program);
    return 0;
}

static int add(struct launcher *launcher, enum interpreter_kind kind, const char *program,
               struct box_interpreters *room, struct launch_spec *spec, struct error *err)
{
    const struct launcher_interpreter *listed = find_listed(launcher->plan, program);
    struct interpreter *found = &room->found[kind];
    int r = listed ? 0 : find(launcher, kind, program, found, err);

    if (r < 0)
        return r;
    for (uint32_t i = 0; listed && i < listed->bind_count; i++)
        add_bind(room, spec, listed->binds[i].host, listed->binds[i].box);
    for (size_t i = 0; i < found->bind_count; i++)
        add_bind(room, spec, found->binds[i], found->binds[i]);
    if (kind == INTERPRETER_PYTHON)
        spec->python = program;
    return 0;
}

/* The path becomes part of a script in the box (boxes/own_programs.c). */
static bool is_plain(const char *path)
{
    for (; *path; path++)
        if ((unsigned char)*path < ' ' || *path == '\'' || *path == 0x7f)
            return false;
    return true;
}

int interpreters_fill(struct launcher *launcher, const struct launcher_make *make,
                      struct box_interpreters *room, struct launch_spec *spec, struct error *err)
{
    int r = 0;

    if (!is_plain(make->python) || !is_plain(make->node))
        return error_set(err, -EINVAL, ERROR_NO_INTERPRETER,
                         "SANDBOX_PYTHON, SANDBOX_NODE: a path with a quote or a control character "
                         "cannot be used");
    if (make->python[0])
        r = add(launcher, INTERPRETER_PYTHON, make->python, room, spec, err);
    if (r == 0 && make->node[0])
        r = add(launcher, INTERPRETER_NODE, make->node, room, spec, err);
    return r;
}
