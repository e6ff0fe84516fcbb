/*
 * volume.c - the volume that every container has at /bailey: the warden's program, and the drivers
 * of kernels and of a zygote, with a link to the image's template. Named by the hash of its
 * contents, filled once, never changed.
 *
 * It is filled through a helper: a container with the volume mounted writable that is never
 * started, into which an archive is put. Its name is derived from the volume's, and Docker allows a
 * name once: only the process that created the helper fills the volume. The last file of the
 * archive marks it as complete.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/tar.h"
#include "boxes/boxes.h"
#include "runtime/docker/docker_private.h"

#define MARK "whole"
#define TEMPLATE "template"
#define TEMPLATE_AT "/usr/share/bailey" /* in an image with a template: image/template.c */
#define WAIT_MS 100
#define STALE_TRIES 100 /* a helper that exists this long belongs to a dead provider host */
#define TRIES_MAX 300

static void make_helper(void *ctx);

struct mapped {
    void *data;
    size_t length;
};

static void mapped_free(struct mapped *mapped)
{
    if (mapped->data)
        munmap(mapped->data, mapped->length);
}

static int map_program(int fd, struct mapped *ret, struct error *err)
{
    struct stat status;
    void *data;

    if (fstat(fd, &status) < 0)
        return error_errno(err, "the program for containers");
    if (status.st_size <= 0 || (uint64_t)status.st_size > LIMIT_DOCKER_VOLUME / 2)
        return error_set(err, -EFBIG, ERROR_ENGINE, "the program for containers is too large");
    data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return error_errno(err, "the program for containers");
    *ret = (struct mapped){.data = data, .length = (size_t)status.st_size};
    return 0;
}

static void hash_file(struct sha256 *hash, const char *path, const void *data, size_t length)
{
    uint64_t size = length;

    sha256_add(hash, path, strlen(path) + 1);
    sha256_add(hash, &size, sizeof(size));
    sha256_add(hash, data, length);
}

int volume_describe(struct volume *volume, int program_fd, struct error *err)
{
    CLEANUP(mapped_free) struct mapped program = {0};
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    size_t count;
    const struct launch_file *files = launch_drivers(&count);
    const struct launch_file *module = launch_zygote_module();
    int r = map_program(program_fd, &program, err);

    if (r < 0)
        return r;
    sha256_begin(&hash);
    hash_file(&hash, "bin/bailey", program.data, program.length);
    for (size_t i = 0; i < count; i++)
        hash_file(&hash, files[i].path, files[i].text, files[i].length);
    hash_file(&hash, module->path, module->text, module->length);
    hash_file(&hash, TEMPLATE, TEMPLATE_AT, strlen(TEMPLATE_AT));
    sha256_end(&hash, digest);
    sha256_text(digest, volume->hash);
    str_format(volume->name, sizeof(volume->name), VOLUME_PREFIX "%.16s", volume->hash);
    str_format(volume->helper, sizeof(volume->helper), "bailey-fill-%.16s", volume->hash);
    volume->tar = BUF_INIT(LIMIT_DOCKER_VOLUME);
    return 0;
}

static int pack_volume(struct docker *docker, struct error *err)
{
    CLEANUP(mapped_free) struct mapped program = {0};
    struct buf *tar = &docker->volume.tar;
    size_t count;
    const struct launch_file *files = launch_drivers(&count);
    const struct launch_file *module = launch_zygote_module();
    int r = map_program(host_spec(docker->host)->program_fd, &program, err);

    if (r < 0)
        return r;
    buf_clear(tar);
    r = tar_folder(tar, "bin/");
    if (r == 0)
        r = tar_file(tar, "bin/bailey", 0555, program.data, program.length);
    if (r == 0)
        r = tar_folder(tar, "driver/");
    for (size_t i = 0; i < count && r == 0; i++)
        r = tar_file(tar, files[i].path, 0444, files[i].text, files[i].length);
    if (r == 0)
        r = tar_file(tar, module->path, 0444, module->text, module->length);
    if (r == 0)
        r = tar_link(tar, TEMPLATE, TEMPLATE_AT);
    if (r == 0)
        r = tar_file(tar, MARK, 0444, docker->volume.hash, strlen(docker->volume.hash));
    if (r == 0)
        r = tar_end(tar);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "packing the volume: %s", strerror(-r)) : 0;
}

/* ---- the steps, from the last to the first ---- */

static void fail_memory(struct docker *docker)
{
    struct error err = {0};

    error_memory(&err);
    prepare_failed(docker, &err);
}

static void ask(struct docker *docker, const struct api_request *request, api_done done)
{
    if (api_start(&docker->api, request, done, docker, &docker->prepare.call) < 0)
        fail_memory(docker);
}

static void later(struct docker *docker)
{
    if (!docker->prepare.timer)
        docker->prepare.timer = reactor_timer(docker->reactor, make_helper, docker);
    if (docker->prepare.timer)
        docker->reactor->ops->timer_set(docker->prepare.timer, WAIT_MS);
    else
        fail_memory(docker);
}

static void on_helper_gone(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;

    docker->prepare.call = NULL;
    if (reply->err.num < 0 && reply->status != 404)
        leftover_add(docker, docker->volume.helper);
    if (docker->volume.failed.num < 0)
        prepare_failed(docker, &docker->volume.failed);
    else if (docker->volume.was_stale)
        later(docker);
    else
        prepare_succeeded(docker);
}

static void drop_helper(struct docker *docker)
{
    char path[160];
    struct api_request request = {.method = "DELETE", .path = path};

    str_format(path, sizeof(path), "/containers/%s?force=1&v=1", docker->volume.helper);
    ask(docker, &request, on_helper_gone);
}

static void look_for_mark(struct docker *docker);

static void on_filled(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;

    docker->prepare.call = NULL;
    buf_free(&docker->volume.tar);
    docker->volume.was_filled = true;
    docker->volume.failed = reply->err;
    if (reply->err.num < 0)
        drop_helper(docker);
    else
        look_for_mark(docker);
}

static void fill(struct docker *docker)
{
    char path[160];
    struct api_request request = {.method = "PUT", .path = path, .bytes = &docker->volume.tar};

    str_format(path, sizeof(path), "/containers/%s/archive?path=" DOCKER_VOLUME_AT,
               docker->volume.helper);
    if (pack_volume(docker, &docker->volume.failed) < 0)
        drop_helper(docker);
    else
        ask(docker, &request, on_filled);
}

/*
 * The file comes as a tar with one entry. With --userns-remap its owner is an id of Docker's
 * machine, and an id that does not fit into tar's old numbers has an extra header before it.
 */
static bool is_marked(const struct docker *docker, const struct buf *tar)
{
    size_t length;
    const char *mark = tar_first(tar, &length);

    return mark && length == strlen(docker->volume.hash) &&
           memcmp(mark, docker->volume.hash, length) == 0;
}

static void on_mark(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;

    docker->prepare.call = NULL;
    if (reply->err.num == 0 && is_marked(docker, reply->raw)) {
        drop_helper(docker);
    } else if (reply->status == 0) {
        prepare_failed(docker, &reply->err);
    } else if (!docker->volume.was_filled) {
        fill(docker);
    } else {
        error_set(&docker->volume.failed, -EIO, ERROR_ENGINE,
                  "volume %s was filled, and is not whole", docker->volume.name);
        drop_helper(docker);
    }
}

static void look_for_mark(struct docker *docker)
{
    char path[160];
    struct api_request request = {.method = "GET", .path = path};

    str_format(path, sizeof(path), "/containers/%s/archive?path=" DOCKER_VOLUME_AT "/" MARK,
               docker->volume.helper);
    ask(docker, &request, on_mark);
}

static void on_helper(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;

    docker->prepare.call = NULL;
    if (reply->err.num == 0) {
        docker->volume.was_stale = false;
        look_for_mark(docker);
    } else if (reply->status != 409 || ++docker->volume.tries > TRIES_MAX) {
        prepare_failed(docker, &reply->err);
    } else if (docker->volume.tries % STALE_TRIES == 0) {
        docker->volume.was_stale = true;
        drop_helper(docker);
    } else {
        later(docker); /* another provider host is filling it now */
    }
}

static void make_helper(void *ctx)
{
    struct docker *docker = ctx;
    char path[160];
    json_t *json = json_pack(
        "{s:s, s:[s], s:[], s:s, s:b, s:{s:s, s:s, s:s}, s:{s:s, s:{s:s}, s:[{s:s, s:s, s:s, "
        "s:{s:b, s:{s:s}}}]}}",
        "Image", docker->spec.image, "Cmd", "never-started", "Entrypoint", "User", DOCKER_USER,
        "NetworkDisabled", 1, "Labels", "bailey.engine", host_engine(docker->host), "bailey.key",
        "fill", "bailey.state", host_state(docker->host), "HostConfig", "NetworkMode", "none",
        "LogConfig", "Type", "none", "Mounts", "Type", "volume", "Source", docker->volume.name,
        "Target", DOCKER_VOLUME_AT, "VolumeOptions", "NoCopy", 1, "Labels", VOLUME_LABEL,
        docker->volume.hash);
    struct api_request request = {.method = "POST", .path = path, .json = json};

    str_format(path, sizeof(path), "/containers/create?name=%s", docker->volume.helper);
    if (json)
        ask(docker, &request, on_helper);
    else
        fail_memory(docker);
    json_decref(json);
}

static void on_volume(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;

    docker->prepare.call = NULL;
    if (reply->err.num < 0)
        prepare_failed(docker, &reply->err);
    else
        make_helper(docker);
}

void volume_start(struct docker *docker)
{
    struct api_request request = {.method = "POST", .path = "/volumes/create"};
    json_t *json = json_pack("{s:s, s:{s:s}}", "Name", docker->volume.name, "Labels", VOLUME_LABEL,
                             docker->volume.hash);

    docker->volume.tries = 0;
    docker->volume.was_filled = docker->volume.was_stale = false;
    docker->volume.failed = (struct error){0};
    request.json = json;
    if (json)
        ask(docker, &request, on_volume);
    else
        fail_memory(docker);
    json_decref(json);
}
