/*
 * pull.c - pulls a missing image from its registry, and reports the progress; see docker_private.h.
 *
 * Docker pulls it, and reports layer by layer: the size of a layer is known only when its download
 * begins. One pull serves all waiting boxes. In a daemon a box waits for it no longer than a client
 * would (DOCKER_PULL_WAIT), and is then refused with `busy`; the pull goes on.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"

#define MEGABYTE 1000000 /* as Docker counts them */

/* ---- progress ---- */

static struct pull_layer *layer_of(struct pull *pull, const char *id)
{
    struct pull_layer *layer;

    for (unsigned i = 0; i < pull->layer_count; i++) {
        if (str_equal(pull->layers[i].id, id))
            return &pull->layers[i];
    }
    if (pull->layer_count == ARRAY_SIZE(pull->layers))
        return NULL;
    layer = &pull->layers[pull->layer_count];
    *layer = (struct pull_layer){0};
    if (!str_copy(layer->id, sizeof(layer->id), id))
        return NULL;
    pull->layer_count++;
    return layer;
}

static uint64_t number_of(const json_t *line, const char *name)
{
    json_int_t number = json_integer_value(json_at(line, "progressDetail", name));

    return number > 0 ? MIN((uint64_t)number, (uint64_t)LIMIT_DOCKER_LAYER) : 0;
}

/* A layer has bytes while it is downloaded; extracting counts the same bytes again. */
static void note_layer(struct pull_layer *layer, const char *status, const json_t *line)
{
    if (str_equal(status, "Downloading")) {
        layer->total = MAX(layer->total, number_of(line, "total"));
        layer->have = number_of(line, "current");
    } else if (str_equal(status, "Download complete") || str_equal(status, "Verifying Checksum")) {
        layer->have = layer->total;
    } else if (str_equal(status, "Pull complete") || str_equal(status, "Already exists")) {
        layer->have = layer->total;
        layer->is_there = true;
    }
}

void pull_note(struct pull *pull, const json_t *line)
{
    static const char *const states[] = {"Pulling fs layer",   "Waiting",           "Downloading",
                                         "Verifying Checksum", "Download complete", "Extracting",
                                         "Pull complete",      "Already exists"};
    const char *status = json_text(json_object_get(line, "status"));
    const char *problem = json_text(json_object_get(line, "error"));

    if (problem[0])
        str_copy(pull->problem, sizeof(pull->problem), problem);
    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        struct pull_layer *layer;

        if (!str_equal(status, states[i]))
            continue;
        layer = layer_of(pull, json_text(json_object_get(line, "id")));
        if (layer)
            note_layer(layer, status, line);
    }
}

void pull_words(const struct pull *pull, char *text, size_t size)
{
    uint64_t have = 0, total = 0;
    unsigned there = 0;

    for (unsigned i = 0; i < pull->layer_count; i++) {
        have += pull->layers[i].have;
        total += MAX(pull->layers[i].total, pull->layers[i].have);
        there += pull->layers[i].is_there;
    }
    if (pull->layer_count == 0)
        str_format(text, size, "asking the registry");
    else
        str_format(text, size, "%llu.%llu of %llu.%llu MB, %u of %u layers",
                   (unsigned long long)(have / MEGABYTE),
                   (unsigned long long)(have % MEGABYTE / (MEGABYTE / 10)),
                   (unsigned long long)(total / MEGABYTE),
                   (unsigned long long)(total % MEGABYTE / (MEGABYTE / 10)), there,
                   pull->layer_count);
}

static void show(struct docker *docker, enum host_progress what)
{
    char words[DOCKER_PULL_WORDS];

    pull_words(&docker->pull, words, sizeof(words));
    const struct host_spec *spec = host_spec(docker->host);

    pull_words(&docker->pull, words, sizeof(words));
    if (spec->progress)
        spec->progress(spec->ctx, what, docker->spec.image, words);
}

/* ---- pulling ---- */

static void on_line(void *ctx, const json_t *line)
{
    struct docker *docker = ctx;

    pull_note(&docker->pull, line);
}

/* Lines come by the hundred, or none for a while: progress is reported by a timer. */
static void on_tick(void *ctx)
{
    struct docker *docker = ctx;

    show(docker, PROGRESS_GOES_ON);
    docker->reactor->ops->timer_set(docker->pull.timer, DOCKER_PULL_TELL_MS);
}

void pull_stop(struct docker *docker)
{
    if (docker->pull.timer)
        docker->reactor->ops->timer_remove(docker->pull.timer);
    docker->pull.timer = NULL;
    docker->pull.is_running = false;
}

static void late(const struct docker *docker, struct error *err)
{
    char words[DOCKER_PULL_WORDS];

    pull_words(&docker->pull, words, sizeof(words));
    error_set(err, -ETIMEDOUT, ERROR_IMAGE_NOT_FOUND,
              "image '%s' is not there, and did not come in %d minutes (%s): try 'docker pull %s' "
              "by hand",
              docker->spec.image, DOCKER_PULL_MS / 60000, words, docker->spec.image);
}

static void on_pulled(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;
    struct error err = reply->err;

    docker->prepare.call = NULL;
    pull_stop(docker);
    if (err.num == -ETIMEDOUT)
        late(docker, &err);
    else if (err.num < 0 && reply->status >= 300)
        docker_pull_refused(docker->spec.image, json_text(json_object_get(reply->json, "message")),
                            &err);
    else if (err.num == 0 && docker->pull.problem[0])
        docker_pull_refused(docker->spec.image, docker->pull.problem, &err);
    show(docker, err.num < 0 ? PROGRESS_FAILED : PROGRESS_ENDS);
    if (err.num < 0)
        prepare_failed(docker, &err);
    else
        prepare_pulled(docker);
}

/*
 * "name", "name:tag", "host:port/name:tag", "name@sha256:..."; without a tag Docker would pull all
 * tags.
 */
int pull_start(struct docker *docker)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_HTTP_TARGET);
    const char *image = docker->spec.image;
    const char *slash = strrchr(image, '/'), *last = slash ? slash : image;
    bool has_tag = strchr(last, ':') || strchr(last, '@');
    struct api_request request = {.method = "POST", .line = on_line, .timeout_ms = DOCKER_PULL_MS};
    int r = buf_append_text(&path, "/images/create?fromImage=");

    if (r == 0)
        r = http_encode(&path, image);
    if (r == 0 && !has_tag)
        r = buf_append_text(&path, "&tag=latest");
    if (r < 0)
        return r;
    docker->pull = (struct pull){.is_running = true};
    docker->pull.timer = reactor_timer(docker->reactor, on_tick, docker);
    request.path = buf_text(&path);
    r = docker->pull.timer
            ? api_start(&docker->api, &request, on_pulled, docker, &docker->prepare.call)
            : -ENOMEM;
    if (r < 0) {
        pull_stop(docker);
        return r;
    }
    show(docker, PROGRESS_BEGINS);
    docker->reactor->ops->timer_set(docker->pull.timer, DOCKER_PULL_TELL_MS);
    return 0;
}

void pull_busy(const struct docker *docker, struct error *err)
{
    char words[DOCKER_PULL_WORDS];

    pull_words(&docker->pull, words, sizeof(words));
    error_set(err, -EAGAIN, ERROR_BUSY,
              "image '%s' is still being pulled (%s): try again in a while, it goes on",
              docker->spec.image, words);
}
