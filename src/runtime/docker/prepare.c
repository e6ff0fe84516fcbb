/*
 * prepare.c - checks that Docker is running and new enough, and that the image and the volume
 * exist. Done before the first box, and again when one of them is gone. At the provider host's
 * start and after Docker was gone, only Docker itself is looked for: removing leftovers of an
 * earlier engine does not wait for a request.
 *
 * Boxes wait meanwhile. A failure is reported to all of them; the next request tries again, because
 * Docker may have been started since.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"
#include "runtime/docker/remedy.h"

static void ask_image(struct docker *docker);

static struct host_box *waiting(struct docker *docker)
{
    struct host_box *box = host_boxes(docker->host), *found = NULL;

    for (; box; box = box->next) {
        if (box->stage == BOX_CREATING && !box->is_there && box->is_waiting)
            found = box; /* the first request is the last of the list */
    }
    return found;
}

static void on_look(void *ctx)
{
    prepare_look(ctx);
}

static void look_later(struct docker *docker)
{
    struct prepare *prepare = &docker->prepare;

    if (!host_spec(docker->host)->state || host_is_leaving(docker->host))
        return; /* a one-box command asks only once */
    if (!prepare->look_timer)
        prepare->look_timer = reactor_timer(docker->reactor, on_look, docker);
    if (!prepare->look_timer)
        return;
    prepare->look_pause_ms = MAX(prepare->look_pause_ms, (uint32_t)DOCKER_LOOK_MS);
    docker->reactor->ops->timer_set(prepare->look_timer, prepare->look_pause_ms);
    prepare->look_pause_ms = MIN(2 * prepare->look_pause_ms, (uint32_t)DOCKER_LOOK_MAX_MS);
}

void prepare_failed(struct docker *docker, const struct error *err)
{
    struct error told = *err;
    struct host_box *box;

    docker_clean(err->text, told.text,
                 sizeof(told.text)); /* contains text of Docker or of an image */
    docker->prepare.stage = PREPARE_NOT;
    buf_free(&docker->volume.tar);
    if (!docker->events_call)
        look_later(docker);
    while ((box = waiting(docker)))
        host_box_refuse(box, &told);
    host_check_greeting(docker->host);
    host_check_left(docker->host);
}

void prepare_succeeded(struct docker *docker)
{
    struct host_box *box;

    docker->prepare.stage = PREPARE_DONE;
    buf_free(&docker->volume.tar);
    while ((box = waiting(docker)))
        host_box_begin(box);
    host_check_left(docker->host);
}

static void no_memory(struct docker *docker)
{
    struct error err = {0};

    error_memory(&err);
    prepare_failed(docker, &err);
}

static void ask(struct docker *docker, const struct api_request *request, api_done done)
{
    if (api_start(&docker->api, request, done, docker, &docker->prepare.call) < 0)
        no_memory(docker);
}

/* ---- the image ---- */

/* Docker's name of this architecture. */
static const char *machine_name(const char *machine)
{
    static const struct {
        const char *kernel, *docker;
    } rows[] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"}, {"i686", "386"}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (str_equal(rows[i].kernel, machine))
            return rows[i].docker;
    }
    return machine; /* riscv64, ppc64le, s390x */
}

static int check_arch(const struct docker *docker, const json_t *image, struct error *err)
{
    const char *arch = json_text(json_object_get(image, "Architecture"));
    const char *os = json_text(json_object_get(image, "Os"));
    struct utsname host;

    uname(&host);
    if (os[0] && !str_equal(os, "linux"))
        return error_set(err, -ENOEXEC, ERROR_IMAGE_UNUSABLE, "image '%s' is for %.20s",
                         docker->spec.image, os);
    if (arch[0] && docker->prepare.arch[0] && !str_equal(arch, docker->prepare.arch))
        return error_set(err, -ENOEXEC, ERROR_IMAGE_UNUSABLE,
                         "image '%s' is of another architecture: it is for %.20s, Docker runs on "
                         "%s. Run 'bailey image build', or set DOCKER_IMAGE",
                         docker->spec.image, arch, docker->prepare.arch);
    if (docker->prepare.arch[0] && !str_equal(docker->prepare.arch, machine_name(host.machine)))
        return error_set(err, -ENOEXEC, ERROR_IMAGE_UNUSABLE,
                         "Docker runs on %s, and this program, which goes into its containers, is "
                         "one for %s",
                         docker->prepare.arch, machine_name(host.machine));
    return 0;
}

/*
 * Docker creates a folder on its host's disk for each VOLUME, writable and without a limit, which
 * the creator of a container cannot prevent.
 */
static int check_volumes(const struct docker *docker, const json_t *image, struct error *err)
{
    const char *path =
        json_object_iter_key(json_object_iter((json_t *)json_at(image, "Config", "Volumes")));

    if (!path)
        return 0;
    return error_set(err, -ENOTSUP, ERROR_IMAGE_UNUSABLE,
                     "image '%s' has a VOLUME (%.100s), which would be a folder of the machine's "
                     "disk without a limit. Set DOCKER_IMAGE to one without, or run 'bailey image "
                     "build'",
                     docker->spec.image, path);
}

/* Prewarmed boxes and one-box commands wait without limit. */
void prepare_late(struct host_box *box)
{
    struct docker *docker = host_backend(box->host);
    struct error err = {0};

    if (!docker->pull.is_running) { /* every other step has its own limit */
        docker->reactor->ops->timer_set(box->timer, DOCKER_LOOK_MAX_MS);
        return;
    }
    pull_busy(docker, &err);
    host_box_refuse(box, &err);
    host_check_greeting(docker->host);
}

static void pull(struct docker *docker)
{
    docker->prepare.has_pulled = true;
    if (pull_start(docker) < 0)
        no_memory(docker);
}

void prepare_pulled(struct docker *docker)
{
    ask_image(docker);
}

static void on_image(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;
    struct error err = reply->err;

    docker->prepare.call = NULL;
    if (reply->status == 404 && !docker->prepare.has_pulled) {
        pull(docker);
        return;
    }
    if (reply->status == 404)
        docker_pull_refused(docker->spec.image, "it was pulled, and is still not there", &err);
    if (err.num < 0 || check_arch(docker, reply->json, &err) < 0 ||
        check_volumes(docker, reply->json, &err) < 0)
        prepare_failed(docker, &err);
    else
        volume_start(docker);
}

/* The slashes of a name are not escaped: Docker's routes contain them. */
static int append_name(struct buf *path, const char *name)
{
    for (;;) {
        CLEANUP(freep) char *piece = strndup(name, strcspn(name, "/"));
        int r = piece ? http_encode(path, piece) : -ENOMEM;

        if (r < 0)
            return r;
        name += strlen(piece);
        if (!*name)
            return 0;
        r = buf_append_text(path, "/");
        if (r < 0)
            return r;
        name++;
    }
}

static void ask_image(struct docker *docker)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_HTTP_TARGET);
    struct api_request request = {.method = "GET"};

    if (buf_append_text(&path, "/images/") < 0 || append_name(&path, docker->spec.image) < 0 ||
        buf_append_text(&path, "/json") < 0) {
        no_memory(docker);
        return;
    }
    request.path = buf_text(&path);
    ask(docker, &request, on_image);
}

/* ---- Docker ---- */

/* A name that is too long is treated as unknown: its limits are checked like any other's. */
static void note_runtime(struct docker *docker, const char *usual)
{
    const char *wanted = docker->spec.runtime;

    docker->prepare.limits = LIMITS_UNKNOWN;
    if (!str_copy(docker->prepare.runtime, sizeof(docker->prepare.runtime),
                  wanted && wanted[0] ? wanted : usual))
        docker->prepare.runtime[0] = 0;
}

static void on_info(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;
    const json_t *options = json_object_get(reply->json, "SecurityOptions");
    struct error err = reply->err;

    docker->prepare.call = NULL;
    if (err.num < 0) {
        prepare_failed(docker, &err);
        return;
    }
    docker->prepare.cpu_count = (uint32_t)json_integer_value(json_object_get(reply->json, "NCPU"));
    host_set_cpu_count(docker->host, docker->prepare.cpu_count);
    docker->prepare.has_userns = false;
    for (size_t i = 0; i < json_array_size(options); i++) {
        const char *option = json_text(json_array_get(options, i));

        if (str_starts(option, "name=userns") || str_starts(option, "name=rootless"))
            docker->prepare.has_userns = true;
    }
    docker->prepare.reached_ns = clock_now_ns();
    note_runtime(docker, json_text(json_object_get(reply->json, "DefaultRuntime")));
    /* Told when a box waits, which may come while leftovers are looked for. */
    docker->prepare.runtime_error = (struct error){0};
    docker_runtime_check(json_object_get(reply->json, "Runtimes"), docker->spec.runtime,
                         &docker->prepare.runtime_error);
    if (!docker->prepare.is_look && docker->prepare.runtime_error.num < 0)
        prepare_failed(docker, &docker->prepare.runtime_error);
    else
        sweep_start(docker);
}

void prepare_swept(struct docker *docker, const struct error *err)
{
    if (docker->prepare.stage != PREPARE_RUNS)
        return;
    if (!docker->prepare.is_look) {
        if (docker->prepare.runtime_error.num < 0)
            prepare_failed(docker, &docker->prepare.runtime_error);
        else
            ask_image(docker);
        return;
    }
    docker->prepare.stage = PREPARE_NOT;
    if (err->num < 0)
        look_later(docker);
    host_check_left(docker->host);
}

static void on_version(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;
    struct error err = reply->err;
    struct api_request request = {.method = "GET", .path = "/info"};

    docker->prepare.call = NULL;
    if (docker_wants_tls(reply->status, reply->raw))
        docker_unavailable(docker->spec.host, -EPROTOTYPE, DOCKER_WANTS_TLS, &err);
    else if (reply->status >= 300)
        docker_unavailable(docker->spec.host, -EPROTO, "the server is not Docker", &err);
    if (err.num == 0)
        api_negotiate(&docker->api, reply->json, &err);
    if (err.num < 0) {
        prepare_failed(docker, &err);
        return;
    }
    str_copy(docker->prepare.arch, sizeof(docker->prepare.arch),
             json_text(json_object_get(reply->json, "Arch")));
    ask(docker, &request, on_info);
}

static void start(struct docker *docker)
{
    struct api_request request = {
        .method = "GET", .path = "/version", .is_unversioned = true, .timeout_ms = DOCKER_HELLO_MS};

    docker->prepare.stage = PREPARE_RUNS;
    docker->prepare.has_pulled = false;
    ask(docker, &request, on_version);
}

void prepare_add(struct docker *docker, struct host_box *box)
{
    if (docker->prepare.stage == PREPARE_DONE) {
        host_box_begin(box);
        return;
    }
    docker->prepare.is_look = false;
    if (docker->prepare.stage == PREPARE_NOT)
        start(docker);
}

void prepare_again(struct docker *docker)
{
    if (docker->prepare.stage == PREPARE_DONE)
        docker->prepare.stage = PREPARE_NOT;
}

void prepare_look(struct docker *docker)
{
    if (docker->prepare.stage != PREPARE_NOT || host_is_leaving(docker->host) ||
        !host_spec(docker->host)->state)
        return;
    docker->prepare.is_look = true;
    start(docker);
}

void prepare_gone(struct docker *docker)
{
    uint64_t stayed_ms = (clock_now_ns() - docker->prepare.reached_ns) / 1000000;

    prepare_again(docker);
    if (stayed_ms >
        DOCKER_LOOK_MAX_MS) /* a Docker that restarts repeatedly is not asked all the time */
        docker->prepare.look_pause_ms = 0;
    look_later(docker);
}

void prepare_leave(struct docker *docker)
{
    bool is_needed = !docker->prepare.is_look && !docker->pull.is_running;

    if (docker->prepare.stage != PREPARE_RUNS || is_needed)
        return;
    prepare_stop(docker); /* Docker ends a pull whose client has left */
    docker->prepare.stage = PREPARE_NOT;
}

void prepare_stop(struct docker *docker)
{
    if (docker->prepare.look_timer)
        docker->reactor->ops->timer_remove(docker->prepare.look_timer);
    docker->prepare.look_timer = NULL;
    api_cancel(docker->prepare.call);
    docker->prepare.call = NULL;
    pull_stop(docker);
    if (docker->prepare.timer)
        docker->reactor->ops->timer_remove(docker->prepare.timer);
    docker->prepare.timer = NULL;
}
