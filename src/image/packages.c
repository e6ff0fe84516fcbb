/*
 * packages.c - the packages of a box, with all dependencies, into a tree; see root.h.
 *
 * A package that is installed here needs no network: its files are copied, if each exists and has
 * the checksum that dpkg recorded (md5sums). All others are downloaded by apt-get, which checks
 * their signatures, and unpacked in a folder of ours. No script of a package is ever run, so
 * neither way needs root.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/dpkg.h"
#include "image/root.h"

#define ELSEWHERE                                                                          \
    "; an image can also be built with docker from deploy/Dockerfile.sandbox of bailey's " \
    "sources"

/* For installing packages, which is not done in a box. */
static const char *const without[] = {
    "debconf",
    "debconf-2.0",
    "cdebconf",
    "dpkg",
    "apt",
    "perl-base",
    "adduser",
    "passwd",
    "login",
    "init-system-helpers",
    "media-types",
    "mime-support",
    "libpam-modules",
    "libpam-runtime",
    "openssl",
    "install-info",
    "usrmerge",
    "usr-is-merged",
    NULL,
};

struct gathering {
    struct image_tree *tree;
    const struct image_packages *from;
    const struct image_work *work;
    struct dpkg dpkg;
    char **names;   /* strv: all */
    char **fetched; /* strv: those that do not come from here */
};

static void gathering_free(struct gathering *gathering)
{
    dpkg_free(&gathering->dpkg);
    strv_free(gathering->names);
    strv_free(gathering->fetched);
}

/* ---- which ---- */

static int read_status(struct gathering *gathering, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_IMAGE_STATUS);
    char path[LIMIT_PATH_BYTES + 1];
    int r;

    str_format(path, sizeof(path), "%s/var/lib/dpkg/status", gathering->from->root);
    r = image_read(path, &text, err);
    if (r == -ENOENT)
        return error_set(err, r, ERROR_ENGINE,
                         "an image is made of the packages of Debian or Ubuntu, and this machine "
                         "has none (no %s)" ELSEWHERE,
                         path);
    return r < 0 ? r : dpkg_read(&gathering->dpkg, buf_text(&text), text.length, true, err);
}

/* Stanzas of packages that are not installed, as apt knows them. */
static int ask_apt(struct gathering *gathering, char **unknown, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_IMAGE_STATUS);
    CLEANUP(strv_freep) char **argv = strv_new();
    static const char *const head[] = {"apt-cache", "show", "--no-all-versions", "--"};
    struct error why = {0};
    int r = argv ? 0 : -ENOMEM;

    for (size_t i = 0; i < ARRAY_SIZE(head) && r == 0; i++)
        r = strv_push(&argv, head[i]);
    for (char **name = unknown; *name && r == 0; name++)
        r = strv_push(&argv, *name);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "out of memory looking for packages");
    r = image_execute(gathering->work, (const char *const *)argv, NULL, &text, &why);
    if (r == -ECANCELED)
        return error_set(err, r, ERROR_CANCELLED, "interrupted");
    /* it fails if one of them is unknown, and still lists the others */
    return dpkg_read(&gathering->dpkg, buf_text(&text), text.length, false, err);
}

static char **wanted_list(const struct gathering *gathering)
{
    const char *const *extra = gathering->from->extra;
    char **wanted = strv_new();
    int r = wanted ? 0 : -ENOMEM;

    for (size_t i = 0; i < image_package_count && r == 0; i++) {
        const struct image_package *row = &image_package_table[i];

        if (!row->is_optional || dpkg_find(&gathering->dpkg, row->name))
            r = strv_push(&wanted, row->name);
    }
    for (; extra && *extra && r == 0; extra++)
        r = strv_push(&wanted, *extra);
    if (r == 0)
        return wanted;
    strv_free(wanted);
    return NULL;
}

static int find_names(struct gathering *gathering, struct error *err)
{
    CLEANUP(strv_freep) char **wanted = wanted_list(gathering);
    CLEANUP(strv_freep) char **unknown = NULL;
    struct dpkg_need need = {.wanted = (const char *const *)wanted, .without = without};
    size_t known;
    int r;

    if (!wanted)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory looking for packages");
    do {
        strv_free(ptr_take(&gathering->names));
        strv_free(ptr_take(&unknown));
        r = dpkg_closure(&gathering->dpkg, &need, &gathering->names, &unknown, err);
        known = gathering->dpkg.count;
        if (r == 0 && unknown[0])
            r = ask_apt(gathering, unknown, err);
    } while (r == 0 && unknown[0] && gathering->dpkg.count > known);
    if (r == 0 && unknown[0])
        return error_set(err, -ENOENT, ERROR_ENGINE,
                         "the package '%s' is neither installed nor known to apt-cache; 'apt-get "
                         "update' may help" ELSEWHERE,
                         unknown[0]);
    return r;
}

/* ---- from here ---- */

/* The digits that dpkg noted for a path, NULL: none. The lines are "DIGITS  path". */
static const char *noted(const struct buf *sums, const char *path)
{
    size_t length = strlen(path);
    const char *at = buf_text(sums), *end;

    for (; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        if ((size_t)(end - at) == length + 34 && memcmp(at + 34, path, length) == 0)
            return at;
    }
    return NULL;
}

/* 1: it is not what the package brought. */
static int add_file(struct gathering *gathering, const char *path, const char *place,
                    const struct buf *sums, struct error *err)
{
    char source[LIMIT_PATH_BYTES + 1], target[LIMIT_PATH_BYTES + 1], digits[33];
    const char *wanted = noted(sums, path + 1);
    struct stat status;
    ssize_t length;

    if (str_format(source, sizeof(source), "%s%s", gathering->from->root, path) < 0 ||
        lstat(source, &status) < 0)
        return 1;
    if (S_ISDIR(status.st_mode))
        return 0;
    if (S_ISLNK(status.st_mode)) {
        length = readlink(source, target, sizeof(target) - 1);
        if (length < 0)
            return 1;
        target[length] = '\0';
        if (!image_link_is_kept(place, target))
            return 0;
        return image_tree_link(gathering->tree, place, target, err);
    }
    if (!S_ISREG(status.st_mode) || access(source, R_OK) < 0)
        return 1;
    if (wanted && (image_md5(source, digits) < 0 || memcmp(digits, wanted, 32) != 0))
        return 1;
    return image_tree_file(gathering->tree, place, source, status.st_mode & 0755,
                           (uint64_t)status.st_size, status.st_mtim.tv_sec, err);
}

static int read_info(const struct gathering *gathering, const struct dpkg_package *package,
                     const char *kind, struct buf *text)
{
    char path[LIMIT_PATH_BYTES + 1];
    int r;

    str_format(path, sizeof(path), "%s/var/lib/dpkg/info/%s.%s", gathering->from->root,
               package->name, kind);
    r = image_read(path, text, NULL);
    if (r != -ENOENT)
        return r;
    str_format(path, sizeof(path), "%s/var/lib/dpkg/info/%s:%s.%s", gathering->from->root,
               package->name, package->architecture, kind);
    return image_read(path, text, NULL);
}

/* "/lib" is a folder of a package and a link of the machine. */
static bool is_top(const char *path)
{
    return !strchr(path + 1, '/');
}

/* 1: it has to be fetched. */
static int add_installed(struct gathering *gathering, const struct dpkg_package *package,
                         struct error *err)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(LIMIT_IMAGE_STATUS), sums = list;
    char text[LIMIT_PATH_BYTES + 1];
    size_t before = gathering->tree->count;
    int r = read_info(gathering, package, "list", &list);

    if (r < 0)
        return 1;
    (void)read_info(gathering, package, "md5sums", &sums); /* not every package has them */
    for (char *line = list.data, *end; line && *line && r == 0; line = end) {
        const char *place;

        end = strchrnul(line, '\n');
        if (*end)
            *end++ = '\0';
        place = line[0] == '/' && !is_top(line) ? image_place(line, text, sizeof(text)) : NULL;
        if (place)
            r = add_file(gathering, line, place, &sums, err);
    }
    if (r > 0)
        image_tree_cut(gathering->tree, before);
    return r;
}

/* ---- from apt ---- */

/* apt-get gives its files names that begin with the package's. */
static int find_deb(const char *folder, const char *name, char *path, size_t size)
{
    DIR *open = opendir(folder);
    size_t length = strlen(name);
    struct dirent *entry;
    int r = -ENOENT;

    while (open && r < 0 && (entry = readdir(open))) {
        if (strncmp(entry->d_name, name, length) == 0 && entry->d_name[length] == '_' &&
            str_ends(entry->d_name, ".deb"))
            r = str_format(path, size, "%s/%s", folder, entry->d_name);
    }
    if (open)
        closedir(open);
    return r;
}

static const char *place_of_package(void *ctx, const char *path, char *text, size_t size)
{
    (void)ctx;
    return str_ends(path, "/") ? NULL : image_place(path, text, size);
}

static int add_fetched(struct gathering *gathering, const char *name, struct error *err)
{
    const char *scratch = gathering->from->scratch;
    char deb[LIMIT_PATH_BYTES + 1], folder[LIMIT_PATH_BYTES + 1];
    const char *const download[] = {"apt-get", "-qq", "download", name, NULL};
    const char *const unpack[] = {"dpkg-deb", "-x", deb, folder, NULL};
    int r = image_execute(gathering->work, download, scratch, NULL, err);

    if (r < 0) {
        if (r == -ECANCELED)
            return r;
        error_prefix(err, "a package that is not installed here, or was changed, cannot be "
                          "fetched; install it or see whether 'apt-get download' works");
        return r;
    }
    if (find_deb(scratch, name, deb, sizeof(deb)) < 0 ||
        str_format(folder, sizeof(folder), "%s/root-%s", scratch, name) < 0)
        return error_set(err, -ENOENT, ERROR_ENGINE, "apt-get download did not produce '%s'", name);
    r = image_execute(gathering->work, unpack, NULL, NULL, err);
    unlink(deb);
    return r < 0 ? r : image_walk(gathering->tree, folder, place_of_package, NULL, err);
}

/* ---- all ---- */

static int add_all(struct gathering *gathering, struct error *err)
{
    size_t count = strv_length(gathering->names);

    for (size_t i = 0; i < count; i++) {
        const struct dpkg_package *package = dpkg_find(&gathering->dpkg, gathering->names[i]);
        int r = image_check(gathering->work, err);

        image_tell(gathering->work, "gathering packages", i, count);
        if (r == 0)
            r = package && package->is_installed ? add_installed(gathering, package, err) : 1;
        if (r > 0)
            r = strv_push(&gathering->fetched, gathering->names[i]);
        if (r < 0)
            return r;
    }
    count = strv_length(gathering->fetched);
    for (size_t i = 0; i < count; i++) {
        int r;

        image_tell(gathering->work, "fetching packages", i, count);
        r = add_fetched(gathering, gathering->fetched[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

int image_add_packages(struct image_tree *tree, const struct image_packages *from,
                       const struct image_work *work, struct image_found *ret, struct error *err)
{
    CLEANUP(gathering_free)
    struct gathering gathering = {.tree = tree, .from = from, .work = work, .fetched = strv_new()};
    int r;

    if (!gathering.fetched)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory looking for packages");
    image_tell(work, "looking for packages", 0, 0);
    r = read_status(&gathering, err);
    if (r == 0)
        r = find_names(&gathering, err);
    if (r == 0)
        r = add_all(&gathering, err);
    if (r == 0)
        r = image_tree_finish(tree, err);
    if (r < 0)
        return r;
    *ret = (struct image_found){.packages = strv_length(gathering.names),
                                .fetched = strv_length(gathering.fetched)};
    str_copy(ret->architecture, sizeof(ret->architecture), gathering.dpkg.architecture);
    return 0;
}
