/*
 * furniture.c - what a box has below /bailey: drivers, the template's layer, packages, an
 * installer's folder; and the files of a layer that appear in the guest's home.
 *
 * A layer was filled by an installer, so its names are a guest's: they are read by descriptor,
 * nothing in it is followed, and they end up as names in a root that only we have touched. All of
 * it is the last of the root, so that nothing is mounted through a link that was made here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "launcher/inside.h"

#define FURNITURE "bailey"

bool furniture_has(const struct launch_spec *spec)
{
    return spec->layer || spec->packages || spec->stages != STAGING_NONE || spec->file_count > 0;
}

bool furniture_has_template(const struct launch_spec *spec)
{
    return spec->layer || spec->stages == STAGING_TEMPLATE;
}

uint64_t furniture_bytes(const struct launch_spec *spec)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < spec->file_count; i++)
        bytes += (spec->files[i].length / 4096 + 2) * 4096; /* its pages, and its folder's */
    return bytes;
}

/* Small files of ours, with the folders that lead to them. */
static int own_files(struct draft *draft, const struct launch_spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->file_count; i++) {
        const struct launch_file *file = &spec->files[i];
        const char *target = draft_text(draft, FURNITURE "/%s", file->path);

        if (file->path[0] == '/' || strstr(file->path, ".."))
            return error_set(err, -EINVAL, ERROR_ENGINE, "'%s' is no file of a box", file->path);
        for (const char *slash = strchr(file->path, '/'); slash; slash = strchr(slash + 1, '/'))
            draft_step(draft, STEP_DIR,
                       draft_text(draft, FURNITURE "/%.*s", (int)(slash - file->path), file->path),
                       NULL, 0755);
        draft_step(draft, STEP_FILE, target, file->length ? file->text : NULL, 0444)->length =
            file->length;
    }
    return 0;
}

/* A folder of the host, at a path of ours. */
static int bind_folder(struct draft *draft, const char *source, const char *target, bool is_written,
                       struct error *err)
{
    struct plan_step *step;
    struct stat status;

    if (lstat(source, &status) < 0) {
        int r = error_errno(err, "opening the folder for /%s", target);

        if (err)
            err->code = ERROR_NOT_FOUND;
        return r;
    }
    if (!S_ISDIR(status.st_mode))
        return error_set(err, -ENOTDIR, ERROR_BAD_INPUT, "what should be /%s is not a folder",
                         target);
    /* Copied: the child wipes the memory in which the caller's arguments are. */
    step = draft_step(draft, STEP_BIND_DIR, target, draft_text(draft, "%s", source), 0);
    step->source_fd = root_clone_tree(source);
    step->is_written = is_written;
    return 0;
}

/* ---- home ---- */

struct home {
    struct draft *draft;
    unsigned entries;
};

static void home_folder(struct home *home, int fd, const char *path, unsigned depth);

static void home_entry(struct home *home, int fd, const char *path, const char *name,
                       unsigned depth)
{
    struct draft *draft = home->draft;
    const char *at = draft_text(draft, "%s%s%s", path, path[0] ? "/" : "", name);
    struct stat status;

    if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISREG(status.st_mode)) {
        home->entries++;
        draft_step(draft, STEP_SYMLINK, draft_text(draft, "home/user/%s", at),
                   draft_text(draft, "/" FURNITURE "/template/home/%s", at), 0)
            ->is_guests = true;
    } else if (S_ISDIR(status.st_mode) && depth < HOME_DEPTH_MAX) {
        CLEANUP(fd_closep)
        int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        home->entries++;
        draft_step(draft, STEP_DIR, draft_text(draft, "home/user/%s", at), NULL, 0755)->is_guests =
            true;
        if (below >= 0)
            home_folder(home, below, at, depth + 1);
    }
}

static void home_folder(struct home *home, int fd, const char *path, unsigned depth)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;

    if (!folder) {
        fd_closep(&copy);
        return;
    }
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
static void home_links(struct draft *draft, const char *layer)
{
    struct home home = {.draft = draft};
    CLEANUP(fd_closep)
    int fd =
        open(draft_text(draft, "%s/home", layer), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        home_folder(&home, fd, "", 0);
}

/* ---- all of it ---- */

static int stage_folder(struct draft *draft, const struct launch_spec *spec, struct error *err)
{
    bool is_template = spec->stages == STAGING_TEMPLATE;
    const char *target = is_template ? FURNITURE "/template" : FURNITURE "/packages";
    int r;

    if (!spec->staging || (is_template ? spec->layer : spec->packages))
        return error_set(err, -EINVAL, ERROR_ENGINE, "an installer box has one folder at /%s",
                         target);
    r = bind_folder(draft, spec->staging, target, true, err);
    if (r < 0)
        return r;
    draft->plan.watch_staging = is_template ? "/" FURNITURE "/template" : "/" FURNITURE "/packages";
    draft_rule(draft, RULE_WRITE_DIR, draft->plan.watch_staging);
    draft->plan.egress_port = LAUNCH_EGRESS_PORT;
    return 0;
}

int furniture_draft(struct draft *draft, const struct launch_spec *spec, struct error *err)
{
    int r;

    if (!furniture_has(spec))
        return 0;
    draft_step(draft, STEP_DIR, FURNITURE, NULL, 0755);
    r = own_files(draft, spec, err);
    if (r == 0 && spec->layer)
        r = bind_folder(draft, spec->layer, FURNITURE "/template", false, err);
    if (r == 0 && spec->packages)
        r = bind_folder(draft, spec->packages, FURNITURE "/packages", false, err);
    if (r == 0 && spec->stages != STAGING_NONE)
        r = stage_folder(draft, spec, err);
    if (r == 0 && spec->layer)
        home_links(draft, spec->layer);
    return r;
}

int furniture_check_bind(const char *target, struct error *err)
{
    static const char *const taken[] = {"driver", "template", "packages"};
    const char *name = target + strlen("/" FURNITURE);
    bool is_taken = str_starts(target, "/" FURNITURE) && name[0] == 0;

    for (size_t i = 0; i < ARRAY_SIZE(taken) && str_starts(target, "/" FURNITURE "/"); i++) {
        size_t length = strlen(taken[i]);

        is_taken |=
            str_starts(name + 1, taken[i]) && (!name[1 + length] || name[1 + length] == '/');
    }
    return is_taken
               ? error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot be shown in the box", target)
               : 0;
}
