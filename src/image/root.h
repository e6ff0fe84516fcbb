/*
 * root.h - the parts of an image, gathered into a tree: packages of this machine, a template, what
 * is our own. They are called in this order; each leaves a finished tree.
 *
 * Reads files of this machine and runs apt-get and dpkg-deb for packages that are not installed, or
 * are not what their package brought. Blocks; asks often whether it shall stop (work.h).
 *
 * Runs in: commands
 */
#ifndef BAILEY_IMAGE_ROOT_H
#define BAILEY_IMAGE_ROOT_H

#include <stddef.h>

#include "base/error.h"
#include "image/tree.h"
#include "image/work.h"

/* What a box has: deploy/Dockerfile.sandbox installs the same, which a test compares. */
struct image_package {
    const char *name; /* or alternatives: "mawk | gawk" */
    bool is_optional; /* taken when it is installed here */
    const char *reason;
};
extern const struct image_package image_package_table[];
extern const size_t image_package_count;

struct image_packages {
    const char *root;         /* the template; "" is this machine */
    const char *scratch;      /* an empty folder for what is fetched */
    const char *const *extra; /* packages besides the table; NULL-terminated, may be NULL */
};
struct image_found {
    size_t packages, fetched; /* all, and those that did not come from here */
    char architecture[32];    /* "amd64" */
};
int image_add_packages(struct image_tree *tree, const struct image_packages *from,
                       const struct image_work *work, struct image_found *ret, struct error *err);

/* Users, links, mount points, certificates, compiled Python: what packages make when installed. */
int image_add_own(struct image_tree *tree, struct error *err);

/* What interpreter a template's layer is for. */
struct image_python {
    char home[512];   /* the folder of its program */
    char version[16]; /* "3.11" */
    bool is_debian;   /* of a package: in /usr/bin */
    char package[32]; /* then: its name, "python3.11" */
};
int image_template_python(const char *layer, struct image_python *ret, struct error *err);
/* `layer` is a folder of the state folder. The layer's packages go to where its Python looks. */
int image_add_template(struct image_tree *tree, const char *layer,
                       const struct image_python *python, struct error *err);

#define IMAGE_HOME "usr/share/bailey/home" /* what a template has for /home/user */

/* ---- for these alone ---- */

/*
 * The path in the image of a file at `path` below the folder, written to `text`; NULL: it is left
 * out. The path of an empty folder ends in a slash, in both.
 */
typedef const char *(*image_placer)(void *ctx, const char *path, char *text, size_t size);
/* Files and links in a folder, and empty folders; others come by themselves. Nothing is followed.
 */
int image_walk(struct image_tree *tree, const char *folder, image_placer placer, void *ctx,
               struct error *err);
/* The whole of a file of this machine. */
int image_read(const char *path, struct buf *text, struct error *err);
/* "NAME: MD5 as 32 digits" of a file; for comparing with what dpkg noted, not for safety. */
int image_md5(const char *path, char digits[33]);

#endif
