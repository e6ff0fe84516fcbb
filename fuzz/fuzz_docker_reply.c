/*
 * fuzz_docker_reply.c - any bytes as what Docker answers: as a whole and as lines. Nothing that is
 * not exactly what was asked for is taken for a container of ours.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/tar.h"
#include "model/json.h"
#include "runtime/docker/docker_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static struct docker_spec docker = {.image = "i:1", .host = "unix:///s"};

static void look_at(const json_t *json)
{
    struct container_spec spec = {.docker = &docker,
                                  .engine = "e1",
                                  .state = "s1",
                                  .key = "k1",
                                  .volume = "v1",
                                  .volume_hash = "h1",
                                  .seccomp = "{}",
                                  .memory_bytes = 256 * MIB,
                                  .disk_bytes = 64 * MIB,
                                  .pids = 64};
    struct api api = {.host = "unix:///s"};
    struct host_seen facts = {0};
    struct error err = {0};

    if (create_check(json, &spec, false, &facts, &err) == 0)
        check(facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS) &&
              facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_CAPS));
    else
        check(err.num < 0 && facts.layers == 0);
    if (api_negotiate(&api, json, &err) == 0)
        check(strspn(api.version, "/v.0123456789") == strlen(api.version) && api.version[0]);
    (void)docker_runtime_check(json_at(json, "Runtimes", NULL), "runsc", &err);
    docker_refused(404, json_text(json_at(json, "message", NULL)), &err);
    for (const char *at = err.text; *at; at++)
        check((unsigned char)*at >= ' ' && *at != 0x7f);
}

static void on_line(void *ctx, const json_t *line)
{
    (*(unsigned *)ctx)++;
    check(json_is_object(line));
    look_at(line);
}

static unsigned take_lines(const uint8_t *data, size_t size, size_t piece)
{
    struct buf body = BUF_INIT(LIMIT_DOCKER_REPLY);
    unsigned lines = 0;
    size_t looked = 0;

    for (size_t at = 0; at < size; at += piece) {
        if (buf_append(&body, data + at, MIN(piece, size - at)) < 0)
            break;
        api_take_lines(&body, &looked, on_line, &lines);
        check(looked == body.length && (looked == 0 || !memchr(body.data, '\n', looked)));
    }
    buf_free(&body);
    return lines;
}

/* The file that is asked for whether the volume is whole. */
static void take_file(const uint8_t *data, size_t size)
{
    struct buf tar = {.data = (char *)data, .length = size, .maximum = size};
    size_t length = 0;
    const char *file = tar_first(&tar, &length);

    if (!file)
        return;
    check(file >= tar.data + 512 && (size_t)(file - tar.data) <= size);
    check(length <= size - (size_t)(file - tar.data));
}

/* As much of a pull as its lines tell. */
static void on_pull(void *ctx, const json_t *line)
{
    char words[DOCKER_PULL_WORDS];

    pull_note(ctx, line);
    pull_words(ctx, words, sizeof(words));
}

static void pull_lines(const uint8_t *data, size_t size)
{
    struct buf body = BUF_INIT(LIMIT_DOCKER_REPLY);
    struct pull pull = {0};
    struct error err = {0};
    size_t looked = 0;

    if (buf_append(&body, data, size) == 0)
        api_take_lines(&body, &looked, on_pull, &pull);
    docker_pull_refused("i:1", pull.problem, &err);
    check(err.num < 0 && err.code);
    buf_free(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct cgroup group;
    json_t *json = NULL;

    if (!text || size > 64 * KIB) { /* in pieces it is looked at again and again */
        free(text);
        return 0;
    }
    take_file(data, size);
    pull_lines(data, size);
    memcpy(text, data, size);
    text[size] = 0;
    check(take_lines(data, size, size ? size : 1) == take_lines(data, size, 7));
    json = json_parse(text, size, 0, NULL);
    if (json)
        look_at(json);
    json_decref(json);
    container_group_parse(text, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                          &group);
    free(text);
    return 0;
}
