/*
 * own_programs.c - python, python3, pip and pip3 of a box, in a folder that comes first in its
 * PATH: the interpreter that code runs with, whatever else the host has in /usr/bin.
 *
 * python is a link. Where Python is of a virtual environment it is a script: Python finds the
 * environment by the path that it was started with.
 *
 * Every Python of the box finds our pip first, as a module too (PYTHONPATH), because `python -m pip
 * install` has no network either: modules/pip.py, to which pip is a link.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "guest_files.h"

#define IN_BOX "bailey/bin"
#define LAYER_PYTHON "/bailey/template/bin/python"

#define PIP "modules/pip.py"

/* pip has four pages, python and both folders have one each; a link has none. */
#define PAGES 7
#define INODES 7

bool own_programs_wanted(const struct launch_spec *spec)
{
    /* An installer box runs our own program, and its PATH is its own affair. */
    return spec->python && spec->stages == STAGING_NONE;
}

uint64_t own_programs_bytes(const struct launch_spec *spec)
{
    return own_programs_wanted(spec) ? PAGES * UINT64_C(4096) : 0;
}

uint64_t own_programs_inodes(const struct launch_spec *spec)
{
    return own_programs_wanted(spec) ? INODES : 0;
}

static const char *program_of(const struct launch_spec *spec)
{
    return spec->layer ? LAYER_PYTHON : spec->python;
}

/* Where a path of the box is outside, as far as this process can reach it. */
static int outside(const struct launch_spec *spec, const char *path, char *ret, size_t size)
{
    for (size_t i = 0; i < spec->bind_count; i++) {
        size_t length = strlen(spec->binds[i].box);

        if (str_starts(path, spec->binds[i].box) && path[length] == '/')
            return str_format(ret, size, "%s%s", spec->binds[i].host, path + length);
    }
    return str_format(ret, size, "%s%s", spec->root ? spec->root : "", path);
}

static bool is_there(const struct launch_spec *spec, const char *path)
{
    char real[PATH_MAX];

    return outside(spec, path, real, sizeof(real)) == 0 && access(real, F_OK) == 0;
}

/* A given root may have Python and no shell; a path with a quote in it cannot be written. */
static bool needs_script(const struct launch_spec *spec)
{
    const char *slash = strrchr(spec->python, '/');
    char settings[PATH_MAX];

    if (!slash || strchr(spec->python, '\'') || !is_there(spec, "/bin/sh"))
        return false;
    return spec->layer || (str_format(settings, sizeof(settings), "%.*s/../pyvenv.cfg",
                                      (int)(slash - spec->python), spec->python) == 0 &&
                           is_there(spec, settings));
}

static const char *python_script(struct plan_builder *builder, const struct launch_spec *spec)
{
    return plan_builder_text(builder, "#!/bin/sh\nexec '%s' \"$@\"\n", program_of(spec));
}

/* `folder` is where python is, as seen from inside. */
static const char *pip_script(struct plan_builder *builder, const char *folder)
{
    for (unsigned i = 0; i < guest_files_count; i++) {
        const struct embedded *file = &guest_files[i];

        if (str_equal(file->name, "pip.py"))
            return plan_builder_text(builder, "#!%s/python\n%.*s", folder, (int)*file->length,
                                     (const char *)file->data);
    }
    return NULL;
}

void own_programs_plan(struct plan_builder *builder, const struct launch_spec *spec)
{
    const char *pip;

    if (!own_programs_wanted(spec))
        return;
    pip = pip_script(builder, "/" IN_BOX);
    plan_builder_step(builder, STEP_DIR, IN_BOX, NULL, 0755);
    if (needs_script(spec))
        plan_builder_step(builder, STEP_FILE, IN_BOX "/python", python_script(builder, spec), 0555);
    else
        plan_builder_step(builder, STEP_SYMLINK, IN_BOX "/python",
                          plan_builder_text(builder, "%s", program_of(spec)), 0);
    plan_builder_step(builder, STEP_SYMLINK, IN_BOX "/python3", "python", 0);
    if (pip) {
        plan_builder_step(builder, STEP_DIR, IN_BOX "/modules", NULL, 0755);
        plan_builder_step(builder, STEP_FILE, IN_BOX "/" PIP, pip, 0555);
        plan_builder_step(builder, STEP_SYMLINK, IN_BOX "/pip", PIP, 0);
        plan_builder_step(builder, STEP_SYMLINK, IN_BOX "/pip3", "pip", 0);
    }
    builder->own_programs = "/" IN_BOX;
}

static int write_text(const char *path, const char *text)
{
    CLEANUP(fd_closep) int fd = -1;
    int r;

    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    return r == 0 && fchmod(fd, 0555) < 0 ? -errno : r;
}

/* `text` NULL: a link to `target`. Each has its name with a 3 too. */
static int write_program(const char *folder, const char *name, const char *text, const char *target)
{
    char path[PATH_MAX], again[PATH_MAX];
    int r;

    if (str_format(path, sizeof(path), "%s/%s", folder, name) < 0 ||
        str_format(again, sizeof(again), "%s3", path) < 0)
        return -ENAMETOOLONG;
    if (text)
        r = write_text(path, text);
    else
        r = symlink(target, path) < 0 ? -errno : 0;
    return r == 0 && symlink(name, again) < 0 ? -errno : r;
}

static int write_pip(const char *folder, const char *text)
{
    char path[PATH_MAX], modules[PATH_MAX];
    int r;

    if (str_format(path, sizeof(path), "%s/" PIP, folder) < 0 ||
        str_format(modules, sizeof(modules), "%s/modules", folder) < 0)
        return -ENAMETOOLONG;
    if (mkdir(modules, 0755) < 0 || chmod(modules, 0755) < 0)
        return -errno;
    r = write_text(path, text);
    return r < 0 ? r : write_program(folder, "pip", NULL, PIP);
}

int own_programs_write(struct plan_builder *builder, const struct launch_spec *spec,
                       const char *folder, struct error *err)
{
    const char *path, *pip;
    int r;

    if (!own_programs_wanted(spec))
        return 0;
    path = plan_builder_text(builder, "%s/bin", folder);
    pip = pip_script(builder, path);
    if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0)
        return error_errno(err, "making the private folder %s", path);
    r = write_program(path, "python", needs_script(spec) ? python_script(builder, spec) : NULL,
                      program_of(spec));
    if (r == 0 && pip)
        r = write_pip(path, pip);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "writing the programs of the box: %s", strerror(-r));
    plan_builder_rule(builder, RULE_READ_DIR, path);
    builder->own_programs = path;
    return 0;
}
