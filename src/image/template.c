/*
 * template.c - a template's layer in an image; see root.h.
 *
 * A layer is a virtual environment at /bailey/template for an interpreter of this machine. In an
 * image its packages are where that interpreter finds them by itself, without any setting:
 * dist-packages in /usr/local for Debian's Python, site-packages for another one, which is included
 * at its own path without the packages that were installed into it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/root.h"

#define OWN_PYTHON "#!/bailey/template/bin/python"
#define SCRIPT_MAX (256 * KIB)

static int not_a_layer(const char *layer, struct error *err)
{
    return error_set(err, -EINVAL, ERROR_ENGINE,
                     "the layer '%.300s' is not one of Python; build the template again", layer);
}

int image_template_python(const char *layer, struct image_python *ret, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    char path[LIMIT_PATH_BYTES + 1];
    struct image_python python = {0};
    unsigned major = 0, minor = 0;
    const char *home, *version;
    int r;

    str_format(path, sizeof(path), "%s/pyvenv.cfg", layer);
    r = image_read(path, &text, err);
    if (r < 0)
        return r;
    home = strstr(buf_text(&text), "home = ");
    version = strstr(buf_text(&text), "version = ");
    if (!home || !version || sscanf(version, "version = %3u.%3u", &major, &minor) != 2)
        return not_a_layer(layer, err);
    home += strlen("home = ");
    if (home[0] != '/' || strcspn(home, "\n") >= sizeof(python.home) || strstr(home, "/../"))
        return not_a_layer(layer, err);
    str_format(python.home, sizeof(python.home), "%.*s", (int)strcspn(home, "\n"), home);
    str_format(python.version, sizeof(python.version), "%u.%u", major, minor);
    python.is_debian = str_equal(python.home, "/usr/bin") || str_equal(python.home, "/bin");
    str_format(python.package, sizeof(python.package), "python%s", python.version);
    *ret = python;
    return 0;
}

/* ---- where things go ---- */

struct placing {
    const char *prefix; /* of an interpreter that is included, without the first slash */
    const char *version;
    char site[1024];  /* where packages go */
    char library[32]; /* "lib/python3.11/" */
};

/* What of an interpreter's own folder is needed. */
static const char *place_of_python(void *ctx, const char *path, char *text, size_t size)
{
    static const char *const unneeded[] = {"site-packages/", "test/",      "idlelib/",
                                           "lib2to3/tests/", "ensurepip/", "config-",
                                           "turtledemo/"};
    const struct placing *placing = ctx;
    const char *rest = path + strlen(placing->library);

    if (str_ends(path, "/"))
        return NULL;
    if (str_starts(path, placing->library)) {
        for (size_t i = 0; i < ARRAY_SIZE(unneeded); i++) {
            if (str_starts(rest, unneeded[i]))
                return NULL;
        }
        if (str_ends(path, ".opt-1.pyc") || str_ends(path, ".opt-2.pyc"))
            return NULL;
    } else if (!str_starts(path, "bin/python3") && !str_starts(path, "lib/libpython3")) {
        return NULL;
    }
    if (str_ends(path, ".a") || str_ends(path, "-config"))
        return NULL;
    return str_format(text, size, "%s/%s", placing->prefix, path) == 0 ? text : NULL;
}

static const char *place_of_layer(void *ctx, const char *path, char *text, size_t size)
{
    const struct placing *placing = ctx;
    size_t length = strlen(placing->library);
    int r = -ENOENT;

    if (strncmp(path, placing->library, length) == 0 && str_starts(path + length, "site-packages/"))
        r = str_format(text, size, "%s/%s", placing->site,
                       path + length + strlen("site-packages/"));
    else if (str_starts(path, "home/"))
        r = str_format(text, size, IMAGE_HOME "/%s", path + strlen("home/"));
    else if (str_starts(path, "files/"))
        r = str_format(text, size, "usr/share/bailey/%s", path);
    else if (str_equal(path, "template.json"))
        r = str_format(text, size, "usr/share/bailey/%s", path);
    return r == 0 ? text : NULL;
}

/* Programs that packages brought: they name the Python of a box with a template. */
static const char *place_of_program(void *ctx, const char *path, char *text, size_t size)
{
    (void)ctx;
    if (strchr(path, '/') || str_starts(path, "python") || str_starts(path, "activate") ||
        str_starts(path, "Activate"))
        return NULL;
    return str_format(text, size, "usr/local/bin/%s", path) == 0 ? text : NULL;
}

static int add_programs(struct image_tree *tree, const char *layer, struct error *err)
{
    CLEANUP(image_tree_free) struct image_tree programs = {0};
    char folder[LIMIT_PATH_BYTES + 1];
    int r;

    str_format(folder, sizeof(folder), "%s/bin", layer);
    r = image_walk(&programs, folder, place_of_program, NULL, err);
    for (size_t i = 0; i < programs.count && r == 0; i++) {
        const struct image_entry *entry = &programs.entries[i];
        CLEANUP(buf_free)
        struct buf text = BUF_INIT(SCRIPT_MAX), changed = BUF_INIT(SCRIPT_MAX * 2);

        if (entry->kind != TAR_FILE || entry->size > SCRIPT_MAX)
            continue;
        r = image_read(entry->source, &text, err);
        if (r < 0 || !str_starts(buf_text(&text), OWN_PYTHON) || strlen(text.data) != text.length)
            continue;
        if (buf_printf(&changed, "#!/usr/local/bin/python3%s", strchrnul(text.data, '\n')) < 0)
            return error_memory(err);
        r = image_tree_text(tree, entry->path, buf_text(&changed), 0755, err);
    }
    return r;
}

/* The modules that a zygote in a box of this image loads (zygote.py), from the layer's own list. */
static int add_tiers(struct image_tree *tree, const char *layer, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_TIERS_BYTES);
    char path[LIMIT_PATH_BYTES + 1];
    int r;

    if (str_format(path, sizeof(path), "%s.tiers", layer) < 0 || access(path, F_OK) < 0)
        return 0;
    r = image_read(path, &text, err);
    return r < 0 ? r : image_tree_text(tree, "usr/share/bailey/tiers", buf_text(&text), 0644, err);
}

/* `python3` is the template's wherever it is looked for. */
static int add_links(struct image_tree *tree, const struct image_python *python, struct error *err)
{
    char program[1024], name[64];
    int r;

    str_format(program, sizeof(program), "%s/python%s", python->home, python->version);
    r = image_tree_link(tree, "usr/local/bin/python3", program, err);
    str_format(name, sizeof(name), "usr/local/bin/python%s", python->version);
    return r == 0 && !python->is_debian ? image_tree_link(tree, name, program, err) : r;
}

int image_add_template(struct image_tree *tree, const char *layer,
                       const struct image_python *python, struct error *err)
{
    struct placing placing = {.version = python->version};
    char prefix[sizeof(python->home)];
    char *slash;
    int r = 0;

    str_copy(prefix, sizeof(prefix), python->home);
    slash = strrchr(prefix, '/');
    if (!slash || !str_equal(slash, "/bin"))
        return not_a_layer(layer, err);
    *slash = '\0';
    placing.prefix = prefix + strspn(prefix, "/");
    str_format(placing.library, sizeof(placing.library), "lib/python%s/", python->version);
    if (python->is_debian)
        str_format(placing.site, sizeof(placing.site), "usr/local/lib/python%s/dist-packages",
                   python->version);
    else
        str_format(placing.site, sizeof(placing.site), "%s/lib/python%s/site-packages",
                   placing.prefix, python->version);
    if (!python->is_debian)
        r = image_walk(tree, prefix, place_of_python, &placing, err);
    if (r == 0)
        r = image_walk(tree, layer, place_of_layer, &placing, err);
    if (r == 0)
        r = add_programs(tree, layer, err);
    if (r == 0)
        r = add_links(tree, python, err);
    if (r == 0)
        r = add_tiers(tree, layer, err);
    return r == 0 ? image_tree_finish(tree, err) : r;
}
