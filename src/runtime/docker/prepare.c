/*
 * prepare.c - is there a Docker, new enough, with the image and the volume? Asked before the first
 * box, and again when one of them was there and is not any more. At the wall's start and when
 * Docker was gone, Docker alone is looked for: what an earlier engine left in it does not wait for
 * a box to be asked for.
 *
 * Boxes wait meanwhile. A failure is told to all of them; the next one that is asked for tries
 * again: Docker may have been started since.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/inside.h"
#include "runtime/docker/remedy.h"

static void ask_image(struct docker_wall *wall);

static struct wall_box *waiting(struct docker_wall *wall)
{
    struct wall_box *box = wall->boxes, *found = NULL;

    for (; box; box = box->next) {
        if (box->stage == BOX_CREATING && !box->is_there && box->is_waiting)
            found = box; /* the first that came is the last of the list */
    }
    return found;
}

static void on_look(void *ctx)
{
    prepare_look(ctx);
}

static void look_later(struct docker_wall *wall)
{
    struct prepare *prepare = &wall->prepare;

    if (!wall->spec.state || wall->is_leaving)
        return; /* who has one box asks for it once */
    if (!prepare->look_timer)
        prepare->look_timer = reactor_timer(wall->reactor, on_look, wall);
    if (!prepare->look_timer)
        return;
    prepare->look_pause_ms = MAX(prepare->look_pause_ms, (uint32_t)DOCKER_LOOK_MS);
    wall->reactor->ops->timer_set(prepare->look_timer, prepare->look_pause_ms);
    prepare->look_pause_ms = MIN(2 * prepare->look_pause_ms, (uint32_t)DOCKER_LOOK_MAX_MS);
}

void prepare_failed(struct docker_wall *wall, const struct error *err)
{
    struct error told = *err;
    struct wall_box *box;

    docker_clean(err->text, told.text,
                 sizeof(told.text)); /* with words of Docker's, or an image's */
    wall->prepare.stage = PREPARE_NOT;
    buf_free(&wall->volume.tar);
    if (!wall->events_call)
        look_later(wall);
    while ((box = waiting(wall)))
        docked_refuse(box, &told);
    control_check(wall);
    wall_check_left(wall);
}

void prepare_succeeded(struct docker_wall *wall)
{
    struct wall_box *box;

    wall->prepare.stage = PREPARE_DONE;
    buf_free(&wall->volume.tar);
    while ((box = waiting(wall))) {
        box->is_waiting = false;
        wall->reactor->ops->timer_set(box->timer, UINT64_MAX);
        if (wall->is_leaving)
            docked_end(box);
        else
            docked_begin(box);
    }
    wall_check_left(wall);
}

static void no_memory(struct docker_wall *wall)
{
    struct error err = {0};

    error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
    prepare_failed(wall, &err);
}

static void ask(struct docker_wall *wall, const struct api_request *request, api_done done)
{
    if (api_start(&wall->api, request, done, wall, &wall->prepare.call) < 0)
        no_memory(wall);
}

/* ---- the image ---- */

/* What Docker calls this machine. */
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

static int check_arch(const struct docker_wall *wall, const json_t *image, struct error *err)
{
    const char *arch = json_text(json_object_get(image, "Architecture"));
    const char *os = json_text(json_object_get(image, "Os"));
    struct utsname host;

    uname(&host);
    if (os[0] && !str_equal(os, "linux"))
        return error_set(err, -ENOEXEC, ERROR_IMAGE_UNUSABLE, "image '%s' is one for %.20s",
                         wall->spec.image, os);
    if (arch[0] && wall->prepare.arch[0] && !str_equal(arch, wall->prepare.arch))
        return error_set(err, -ENOEXEC, ERROR_IMAGE_UNUSABLE,
                         "image '%s' is of another architecture: it is for %.20s, Docker runs on "
                         "%s. Run 'bailey image build', or set DOCKER_IMAGE",
                         wall->spec.image, arch, wall->prepare.arch);
    if (wall->prepare.arch[0] && !str_equal(wall->prepare.arch, machine_name(host.machine)))
        return error_set(err, -ENOEXEC, ERROR_IMAGE_UNUSABLE,
                         "Docker runs on %s, and this program, which goes into its containers, is "
                         "one for %s",
                         wall->prepare.arch, machine_name(host.machine));
    return 0;
}

/*
 * Docker makes a folder on the machine's disk for each, without a limit and writable, which nobody
 * who makes a container can prevent.
 */
static int check_volumes(const struct docker_wall *wall, const json_t *image, struct error *err)
{
    const char *path =
        json_object_iter_key(json_object_iter((json_t *)json_at(image, "Config", "Volumes")));

    if (!path)
        return 0;
    return error_set(err, -ENOTSUP, ERROR_IMAGE_UNUSABLE,
                     "image '%s' has a VOLUME (%.100s), which would be a folder of the machine's "
                     "disk without a limit. Set DOCKER_IMAGE to one without, or run 'bailey image "
                     "build'",
                     wall->spec.image, path);
}

/* Boxes that are made ahead wait as long as it takes, and so does who has one box. */
void prepare_late(struct wall_box *box)
{
    struct docker_wall *wall = box->wall;
    struct error err = {0};

    if (!wall->pull.is_running) { /* every other step has its own limit */
        wall->reactor->ops->timer_set(box->timer, DOCKER_LOOK_MAX_MS);
        return;
    }
    pull_busy(wall, &err);
    docked_refuse(box, &err);
    control_check(wall);
}

static void pull(struct docker_wall *wall)
{
    wall->prepare.has_pulled = true;
    if (pull_start(wall) < 0)
        no_memory(wall);
}

void prepare_pulled(struct docker_wall *wall)
{
    ask_image(wall);
}

static void on_image(void *ctx, const struct api_reply *reply)
{
    struct docker_wall *wall = ctx;
    struct error err = reply->err;

    wall->prepare.call = NULL;
    if (reply->status == 404 && !wall->prepare.has_pulled) {
        pull(wall);
        return;
    }
    if (reply->status == 404)
        docker_pull_refused(wall->spec.image, "it was pulled, and is still not there", &err);
    if (err.num < 0 || check_arch(wall, reply->json, &err) < 0 ||
        check_volumes(wall, reply->json, &err) < 0)
        prepare_failed(wall, &err);
    else
        volume_start(wall);
}

/* The slashes of a name stay what they are: Docker's own routes have them in it. */
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

static void ask_image(struct docker_wall *wall)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_HTTP_TARGET);
    struct api_request request = {.method = "GET"};

    if (buf_append_text(&path, "/images/") < 0 || append_name(&path, wall->spec.image) < 0 ||
        buf_append_text(&path, "/json") < 0) {
        no_memory(wall);
        return;
    }
    request.path = buf_text(&path);
    ask(wall, &request, on_image);
}

/* ---- Docker ---- */

/* A name that is too long is nobody's: what it stands for is asked like any other's. */
static void note_runtime(struct docker_wall *wall, const char *usual)
{
    const char *wanted = wall->spec.runtime;

    wall->prepare.limits = LIMITS_UNKNOWN;
    if (!str_copy(wall->prepare.runtime, sizeof(wall->prepare.runtime),
                  wanted && wanted[0] ? wanted : usual))
        wall->prepare.runtime[0] = 0;
}

static void on_info(void *ctx, const struct api_reply *reply)
{
    struct docker_wall *wall = ctx;
    const json_t *options = json_object_get(reply->json, "SecurityOptions");
    struct error err = reply->err;

    wall->prepare.call = NULL;
    if (err.num < 0) {
        prepare_failed(wall, &err);
        return;
    }
    wall->prepare.cpu_count = (uint32_t)json_integer_value(json_object_get(reply->json, "NCPU"));
    wall->prepare.has_userns = false;
    for (size_t i = 0; i < json_array_size(options); i++) {
        const char *option = json_text(json_array_get(options, i));

        if (str_starts(option, "name=userns") || str_starts(option, "name=rootless"))
            wall->prepare.has_userns = true;
    }
    wall->prepare.reached_ns = clock_now_ns();
    note_runtime(wall, json_text(json_object_get(reply->json, "DefaultRuntime")));
    if (!wall->prepare.is_look && docker_runtime_check(json_object_get(reply->json, "Runtimes"),
                                                       wall->spec.runtime, &err) < 0)
        prepare_failed(wall, &err);
    else
        sweep_start(wall);
}

void prepare_swept(struct docker_wall *wall, const struct error *err)
{
    if (wall->prepare.stage != PREPARE_RUNS)
        return;
    if (!wall->prepare.is_look) {
        ask_image(wall);
        return;
    }
    wall->prepare.stage = PREPARE_NOT;
    if (err->num < 0)
        look_later(wall);
    wall_check_left(wall);
}

static void on_version(void *ctx, const struct api_reply *reply)
{
    struct docker_wall *wall = ctx;
    struct error err = reply->err;
    struct api_request request = {.method = "GET", .path = "/info"};

    wall->prepare.call = NULL;
    if (docker_wants_tls(reply->status, reply->raw))
        docker_unavailable(wall->spec.host, -EPROTOTYPE, DOCKER_WANTS_TLS, &err);
    else if (reply->status >= 300)
        docker_unavailable(wall->spec.host, -EPROTO, "what answers is not Docker", &err);
    if (err.num == 0)
        api_negotiate(&wall->api, reply->json, &err);
    if (err.num < 0) {
        prepare_failed(wall, &err);
        return;
    }
    str_copy(wall->prepare.arch, sizeof(wall->prepare.arch),
             json_text(json_object_get(reply->json, "Arch")));
    ask(wall, &request, on_info);
}

static void start(struct docker_wall *wall)
{
    struct api_request request = {
        .method = "GET", .path = "/version", .is_unversioned = true, .timeout_ms = DOCKER_HELLO_MS};

    wall->prepare.stage = PREPARE_RUNS;
    wall->prepare.has_pulled = false;
    ask(wall, &request, on_version);
}

void prepare_add(struct docker_wall *wall, struct wall_box *box)
{
    if (wall->prepare.stage == PREPARE_DONE) {
        docked_begin(box);
        return;
    }
    box->is_waiting = true;
    if (!box->is_ahead && wall->spec.pull_wait_ms)
        wall->reactor->ops->timer_set(box->timer, wall->spec.pull_wait_ms);
    wall->prepare.is_look = false;
    if (wall->prepare.stage == PREPARE_NOT)
        start(wall);
}

void prepare_drop(struct docker_wall *wall, struct wall_box *box)
{
    (void)wall;
    box->is_waiting = false;
}

void prepare_again(struct docker_wall *wall)
{
    if (wall->prepare.stage == PREPARE_DONE)
        wall->prepare.stage = PREPARE_NOT;
}

void prepare_look(struct docker_wall *wall)
{
    if (wall->prepare.stage != PREPARE_NOT || wall->is_leaving || !wall->spec.state)
        return;
    wall->prepare.is_look = true;
    start(wall);
}

void prepare_gone(struct docker_wall *wall)
{
    uint64_t stayed_ms = (clock_now_ns() - wall->prepare.reached_ns) / 1000000;

    prepare_again(wall);
    if (stayed_ms > DOCKER_LOOK_MAX_MS) /* one that only comes and goes is not asked all the time */
        wall->prepare.look_pause_ms = 0;
    look_later(wall);
}

void prepare_leave(struct docker_wall *wall)
{
    bool is_needed = !wall->prepare.is_look && !wall->pull.is_running;

    if (wall->prepare.stage != PREPARE_RUNS || is_needed)
        return;
    prepare_stop(wall); /* Docker ends a pull that nobody listens to */
    wall->prepare.stage = PREPARE_NOT;
}

void prepare_stop(struct docker_wall *wall)
{
    if (wall->prepare.look_timer)
        wall->reactor->ops->timer_remove(wall->prepare.look_timer);
    wall->prepare.look_timer = NULL;
    api_cancel(wall->prepare.call);
    wall->prepare.call = NULL;
    pull_stop(wall);
    if (wall->prepare.timer)
        wall->reactor->ops->timer_remove(wall->prepare.timer);
    wall->prepare.timer = NULL;
}
