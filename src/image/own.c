/*
 * own.c - what an image has besides the files of packages: what their scripts would have made
 * during installation, and the folders that a box needs; see root.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/root.h"

#define CERTIFICATES "usr/share/ca-certificates/"
#define BUNDLE "etc/ssl/certs/ca-certificates.crt"
#define PYTHONS "usr/lib/python3"

static const struct {
    const char *path, *text;
} texts[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                   "user:x:1000:1000:user:/home/user:/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
                          "services: files\nprotocols: files\n"},
    {"etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
    {"etc/timezone", "Etc/UTC\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
};

static const struct {
    const char *path;
    unsigned mode, owner;
} folders[] = {
    {"bailey", 0755, 0},        {"workspace", 0755, 1000}, {"home/user", 0755, 1000},
    {"tmp", 01777, 0},          {"tmp/output", 01777, 0},  {"var/tmp", 01777, 0},
    {"root", 0755, 0},          {"run", 0755, 0},          {"proc", 0755, 0},
    {"sys", 0755, 0},           {"dev", 0755, 0},          {"usr/local/bin", 0755, 0},
    {"usr/local/lib", 0755, 0},
};

/* A link that is made if the image has its target, and nothing under its own name. */
static const struct {
    const char *path, *target, *needs;
} links[] = {
    {"bin", "usr/bin", "usr/bin"},
    {"sbin", "usr/sbin", "usr/sbin"},
    {"lib", "usr/lib", "usr/lib"},
    {"lib32", "usr/lib32", "usr/lib32"},
    {"lib64", "usr/lib64", "usr/lib64"},
    {"libx32", "usr/libx32", "usr/libx32"},
    {"usr/bin/sh", "dash", "usr/bin/dash"},
    {"usr/bin/awk", "mawk", "usr/bin/mawk"},
    {"usr/bin/awk", "gawk", "usr/bin/gawk"},
    {"usr/bin/nawk", "mawk", "usr/bin/mawk"},
    {"usr/bin/nawk", "gawk", "usr/bin/gawk"},
    {"usr/bin/which", "which.debianutils", "usr/bin/which.debianutils"},
    {"usr/bin/pager", "less", "usr/bin/less"},
    {"usr/bin/node", "nodejs", "usr/bin/nodejs"},
    {"usr/local/bin/python", "python3", "usr/local/bin/python3"}, /* a template's */
    {"usr/local/bin/python", "/usr/bin/python3", "usr/bin/python3"},
    {"etc/os-release", "../usr/lib/os-release", "usr/lib/os-release"},
    {"etc/localtime", "/usr/share/zoneinfo/Etc/UTC", "usr/share/zoneinfo/Etc/UTC"},
    {"etc/mtab", "/proc/mounts", "usr"},
    {"var/run", "/run", "usr"},
    {"usr/lib/ssl/certs", "/etc/ssl/certs", BUNDLE},
    {"usr/lib/ssl/cert.pem", "/" BUNDLE, BUNDLE},
};

static int add_rows(struct image_tree *tree, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
        r = image_tree_text(tree, texts[i].path, texts[i].text, 0644, err);
    for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++)
        r = image_tree_folder(tree, folders[i].path, folders[i].mode, folders[i].owner, err);
    return r;
}

static int add_links(struct image_tree *tree, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(links) && r == 0; i++) {
        if (image_tree_find(tree, links[i].needs) && !image_tree_find(tree, links[i].path))
            r = image_tree_link(tree, links[i].path, links[i].target, err);
    }
    return r;
}

/*
 * What update-ca-certificates(8) makes of the package: without certificates added to this machine.
 */
static int add_certificates(struct image_tree *tree, struct error *err)
{
    CLEANUP(buf_free) struct buf bundle = BUF_INIT(16 * MIB);

    for (size_t i = 0; i < tree->sorted; i++) {
        const struct image_entry *entry = &tree->entries[i];
        int r;

        if (entry->kind != TAR_FILE || !entry->source || !str_starts(entry->path, CERTIFICATES) ||
            !str_ends(entry->path, ".crt"))
            continue;
        r = image_read(entry->source, &bundle, err);
        if (r < 0)
            return r;
        if (bundle.length > 0 && bundle.data[bundle.length - 1] != '\n')
            (void)buf_append_text(&bundle, "\n");
    }
    return bundle.length > 0 ? image_tree_text(tree, BUNDLE, buf_text(&bundle), 0644, err) : 0;
}

/* ---- Python's compiled files ---- */

/* Does it belong to this source? PEP 552: four numbers of 32 bits; the second is 0 with a time. */
static bool is_fresh(const char *path, const struct image_entry *source, struct stat *ret)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    unsigned char head[16];
    uint32_t words[4];

    if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode) ||
        fd_read_all(fd, head, sizeof(head)) != sizeof(head))
        return false;
    for (size_t i = 0; i < 4; i++)
        words[i] = (uint32_t)head[4 * i] | (uint32_t)head[4 * i + 1] << 8 |
                   (uint32_t)head[4 * i + 2] << 16 | (uint32_t)head[4 * i + 3] << 24;
    return words[1] == 0 && words[2] == (uint32_t)source->mtime_s &&
           words[3] == (uint32_t)source->size;
}

/* "311" of usr/lib/python3.11/...; of usr/lib/python3/... that of the default one. */
static bool version_digits(const char *path, const char *usual, char digits[8])
{
    const char *at = path + strlen(PYTHONS);
    size_t length = *at == '.' ? strspn(at + 1, "0123456789") : 0;

    if (*at == '/') {
        return str_copy(digits, 8, usual) && usual[0];
    }
    return length > 0 && length < 4 && at[1 + length] == '/' &&
           str_format(digits, 8, "3%.*s", (int)length, at + 1) == 0;
}

/* `place` or a source's path with __pycache__ in it. */
static int compiled_name(const char *path, const char *digits, char *text, size_t size)
{
    const char *name = strrchr(path, '/') + 1;

    return str_format(text, size, "%.*s__pycache__/%.*s.cpython-%s.pyc", (int)(name - path), path,
                      (int)(strlen(name) - strlen(".py")), name, digits);
}

/*
 * Without these each start of Python in a box, whose root is read-only, would compile everything.
 */
static int add_compiled(struct image_tree *tree, struct error *err)
{
    const struct image_entry *python = image_tree_find(tree, "usr/bin/python3");
    char usual[8] = "";
    size_t count = tree->count;
    int r = 0;

    if (python && python->kind == TAR_LINK && str_starts(python->text, "python3."))
        str_format(usual, sizeof(usual), "3%.3s", python->text + strlen("python3."));
    for (size_t i = 0; i < count && r == 0; i++) {
        const struct image_entry entry = tree->entries[i];
        char from[LIMIT_PATH_BYTES + 1], place[LIMIT_PATH_BYTES + 1], digits[8];
        struct stat status;

        if (entry.kind != TAR_FILE || !entry.source || !str_starts(entry.path, PYTHONS) ||
            !str_ends(entry.path, ".py") || !version_digits(entry.path, usual, digits))
            continue;
        if (compiled_name(entry.source, digits, from, sizeof(from)) < 0 ||
            compiled_name(entry.path, digits, place, sizeof(place)) < 0 ||
            !is_fresh(from, &entry, &status))
            continue;
        r = image_tree_file(tree, place, from, 0644, (uint64_t)status.st_size,
                            status.st_mtim.tv_sec, err);
    }
    return r;
}

int image_add_own(struct image_tree *tree, struct error *err)
{
    int r = add_rows(tree, err);

    if (r == 0)
        r = add_certificates(tree, err);
    if (r == 0)
        r = add_compiled(tree, err);
    if (r == 0)
        r = image_tree_finish(tree, err); /* the links look at what there is */
    if (r == 0)
        r = add_links(tree, err);
    return r == 0 ? image_tree_finish(tree, err) : r;
}
