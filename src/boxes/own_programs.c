/*
 * own_programs.c - python, python3, pip and pip3 of a box, in a folder that comes first in its
 * PATH: the interpreter that code runs with, whatever else the host has in /usr/bin.
 *
 * python is a script and not a link: Python finds a virtual environment by the path that it was
 * started with.
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

/* Each file has a page, and so has their folder; a link has none. */
#define PAGES 3
#define INODES 6

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

/* A script that becomes the interpreter; a path with a quote in it cannot be written so: NULL. */
static const char *python_script(struct plan_builder *builder, const struct launch_spec *spec)
{
    const char *program = spec->layer ? LAYER_PYTHON : spec->python;

    return strchr(program, '\'')
               ? NULL
               : plan_builder_text(builder, "#!/bin/sh\nexec '%s' \"$@\"\n", program);
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

/* A given root may have Python and no shell. */
static bool has_shell(const struct launch_spec *spec)
{
    char path[PATH_MAX];

    return str_format(path, sizeof(path), "%s/bin/sh", spec->root ? spec->root : "") == 0 &&
           access(path, F_OK) == 0;
}

void own_programs_plan(struct plan_builder *builder, const struct launch_spec *spec)
{
    const char *python = own_programs_wanted(spec) ? python_script(builder, spec) : NULL;
    const char *pip;

    if (!python)
        return;
    pip = pip_script(builder, "/" IN_BOX);
    plan_builder_step(builder, STEP_DIR, IN_BOX, NULL, 0755);
    if (has_shell(spec))
        plan_builder_step(builder, STEP_FILE, IN_BOX "/python", python, 0555);
    else
        plan_builder_step(
            builder, STEP_SYMLINK, IN_BOX "/python",
            plan_builder_text(builder, "%s", spec->layer ? LAYER_PYTHON : spec->python), 0);
    plan_builder_step(builder, STEP_SYMLINK, IN_BOX "/python3", "python", 0);
    if (pip) {
        plan_builder_step(builder, STEP_FILE, IN_BOX "/pip", pip, 0555);
        plan_builder_step(builder, STEP_SYMLINK, IN_BOX "/pip3", "pip", 0);
    }
    builder->own_programs = "/" IN_BOX;
}

static int write_program(const char *folder, const char *name, const char *text)
{
    CLEANUP(fd_closep) int fd = -1;
    char path[PATH_MAX], link[PATH_MAX];
    int r;

    if (str_format(path, sizeof(path), "%s/%s", folder, name) < 0 ||
        str_format(link, sizeof(link), "%s3", path) < 0)
        return -ENAMETOOLONG;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    if (fd < 0)
        return -errno;
    r = fd_write_all(fd, text, strlen(text));
    if (r == 0 && fchmod(fd, 0555) < 0)
        r = -errno;
    return r == 0 && symlink(name, link) < 0 ? -errno : r;
}

int own_programs_write(struct plan_builder *builder, const struct launch_spec *spec,
                       const char *folder, struct error *err)
{
    const char *python = own_programs_wanted(spec) ? python_script(builder, spec) : NULL;
    const char *path, *pip;
    int r;

    if (!python)
        return 0;
    path = plan_builder_text(builder, "%s/bin", folder);
    pip = pip_script(builder, path);
    if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0)
        return error_errno(err, "making the private folder %s", path);
    r = write_program(path, "python", python);
    if (r == 0 && pip)
        r = write_program(path, "pip", pip);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "writing the programs of the box: %s", strerror(-r));
    plan_builder_rule(builder, RULE_READ_DIR, path);
    builder->own_programs = path;
    return 0;
}
