/*
 * box_mounts.c - the contents of /bailey in a box: drivers, the template's layer, packages, an
 * installer's folder; and the files of a layer that appear in the guest's home.
 *
 * An installer filled the layer, so its names are untrusted: they are read by descriptor, no link
 * in it is followed, and they become names in a root that only we have touched. All of it comes
 * last in the root, so that nothing is mounted through a link that was made here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"

#define BOX_MOUNTS "bailey"

bool box_mounts_has_any(const struct launch_spec *spec)
{
    return spec->layer || spec->packages || spec->stages != STAGING_NONE || spec->file_count > 0 ||
           own_programs_wanted(spec);
}

bool box_mounts_has_template(const struct launch_spec *spec)
{
    return spec->layer || staging_is_template(spec->stages);
}

uint64_t box_mounts_bytes(const struct launch_spec *spec)
{
    uint64_t bytes = own_programs_bytes(spec);

    for (size_t i = 0; i < spec->file_count; i++)
        bytes += (spec->files[i].length / 4096 + 2) * 4096; /* its pages, and its folder's */
    return bytes;
}

/* Small files of ours, with the folders that lead to them. */
static int own_files(struct plan_builder *builder, const struct launch_spec *spec,
                     struct error *err)
{
    for (size_t i = 0; i < spec->file_count; i++) {
        const struct launch_file *file = &spec->files[i];
        const char *target = plan_builder_text(builder, BOX_MOUNTS "/%s", file->path);

        if (file->path[0] == '/' || strstr(file->path, ".."))
            return error_set(err, -EINVAL, ERROR_ENGINE, "'%s' is not a file of a box", file->path);
        for (const char *slash = strchr(file->path, '/'); slash; slash = strchr(slash + 1, '/'))
            plan_builder_step(builder, STEP_DIR,
                              plan_builder_text(builder, BOX_MOUNTS "/%.*s",
                                                (int)(slash - file->path), file->path),
                              NULL, 0755);
        plan_builder_step(builder, STEP_FILE, target, file->length ? file->text : NULL, 0444)
            ->length = file->length;
    }
    return 0;
}

/* A folder of the host, at a path of ours. */
static int bind_folder(struct plan_builder *builder, const char *source, const char *target,
                       bool is_written, bool is_shared, struct error *err)
{
    struct plan_step *step;
    struct stat status;
    int r;

    if (lstat(source, &status) < 0) {
        r = error_errno(err, "opening the folder for /%s", target);

        if (err)
            err->code = ERROR_NOT_FOUND;
        return r;
    }
    if (!S_ISDIR(status.st_mode))
        return error_set(err, -ENOTDIR, ERROR_BAD_INPUT, "what should be /%s is not a folder",
                         target);
    /* Copied: the child wipes the memory in which the caller's arguments are. */
    step = plan_builder_step(builder, STEP_BIND_DIR, target,
                             plan_builder_text(builder, "%s", source), 0);
    step->is_written = is_written;
    r = root_clone_folder(source, target, &step->source_fd, err);
    if (r == 0 && is_shared) /* with other boxes */
        plan_builder_overlay(builder, NULL, false, false);
    return r;
}

/* ---- home ---- */

struct home {
    struct plan_builder *builder;
    unsigned entries;
};

static void home_folder(struct home *home, int fd, const char *path, unsigned depth);

static void home_entry(struct home *home, int fd, const char *path, const char *name,
                       unsigned depth)
{
    struct plan_builder *builder = home->builder;
    const char *at = plan_builder_text(builder, "%s%s%s", path, path[0] ? "/" : "", name);
    struct stat status;

    if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISREG(status.st_mode)) {
        home->entries++;
        plan_builder_step(builder, STEP_SYMLINK, plan_builder_text(builder, "home/user/%s", at),
                          plan_builder_text(builder, "/" BOX_MOUNTS "/template/home/%s", at), 0)
            ->is_guests = true;
    } else if (S_ISDIR(status.st_mode) && depth < HOME_DEPTH_MAX) {
        CLEANUP(fd_closep)
        int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        home->entries++;
        plan_builder_step(builder, STEP_DIR, plan_builder_text(builder, "home/user/%s", at), NULL,
                          0755)
            ->is_guests = true;
        if (below >= 0)
            home_folder(home, below, at, depth + 1);
    }
}

static void home_folder(struct home *home, int fd, const char *path, unsigned depth)
{
    DIR *folder = folder_list(fd, ".");
    struct dirent *entry;

    if (!folder)
        return;
    while (home->entries < HOME_LINKS_MAX && (entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            home_entry(home, fd, path, entry->d_name, depth);
    }
    closedir(folder);
}

/*
 * A program that keeps a cache in its home wants to write there, or says so at every start: so the
 * folders are the guest's and only the files are the layer's.
 */
static void home_links(struct plan_builder *builder, const char *layer)
{
    struct home home = {.builder = builder};
    CLEANUP(fd_closep) int layer_fd = open(layer, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(fd_closep)
    int fd = layer_fd < 0
                 ? -1
                 : openat(layer_fd, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        home_folder(&home, fd, "", 0);
}

/* ---- all of it ---- */

static int stage_folder(struct plan_builder *builder, const struct launch_spec *spec,
                        struct error *err)
{
    bool is_template = staging_is_template(spec->stages);
    const char *target = is_template ? BOX_MOUNTS "/template" : BOX_MOUNTS "/packages";
    int r;

    if (!spec->staging || (is_template ? spec->layer : spec->packages))
        return error_set(err, -EINVAL, ERROR_ENGINE, "an installer box has one folder at /%s",
                         target);
    r = bind_folder(builder, spec->staging, target, true, false, err);
    if (r < 0)
        return r;
    builder->plan.watch_staging =
        is_template ? "/" BOX_MOUNTS "/template" : "/" BOX_MOUNTS "/packages";
    plan_builder_rule(builder, RULE_WRITE_DIR, builder->plan.watch_staging);
    if (staging_fetches(spec->stages))
        builder->plan.egress_port = LAUNCH_EGRESS_PORT;
    return 0;
}

int box_mounts_plan(struct plan_builder *builder, const struct launch_spec *spec, struct error *err)
{
    int r;

    if (!box_mounts_has_any(spec))
        return 0;
    plan_builder_step(builder, STEP_DIR, BOX_MOUNTS, NULL, 0755);
    r = own_files(builder, spec, err);
    if (r == 0)
        own_programs_plan(builder, spec);
    if (r == 0 && spec->layer)
        r = bind_folder(builder, spec->layer, BOX_MOUNTS "/template", false, true, err);
    if (r == 0 && spec->packages)
        r = bind_folder(builder, spec->packages, BOX_MOUNTS "/packages", false, false, err);
    if (r == 0 && spec->stages != STAGING_NONE)
        r = stage_folder(builder, spec, err);
    if (r == 0 && spec->layer)
        home_links(builder, spec->layer);
    return r;
}

int box_mounts_check_bind(const char *target, struct error *err)
{
    static const char *const taken[] = {"driver", "template", "packages", "bin"};
    const char *name = target + strlen("/" BOX_MOUNTS);
    bool is_taken = str_starts(target, "/" BOX_MOUNTS) && name[0] == 0;

    for (size_t i = 0; i < ARRAY_SIZE(taken) && str_starts(target, "/" BOX_MOUNTS "/"); i++) {
        size_t length = strlen(taken[i]);

        is_taken |=
            str_starts(name + 1, taken[i]) && (!name[1 + length] || name[1 + length] == '/');
    }
    return is_taken
               ? error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot be shown in the box", target)
               : 0;
}
