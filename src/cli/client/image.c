/* image.c - `bailey image build|ls|rm`: images for container boxes. */
#include "cli/client/image.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/commands.h"
#include "cli/client/format.h"
#include "cli/client/table.h"
#include "cli/message.h"
#include "runtime/docker/client.h"

/* {"label":["bailey.image"]}, encoded */
#define OURS "/images/json?filters=%7B%22label%22%3A%5B%22" IMAGE_LABEL "%22%5D%7D"

static int open_docker(struct action_job *job, struct docker_client *docker, struct error *err)
{
    int r = client_open(&job->client, job->request.config_file, job->invocation->env,
                        CLIENT_NO_CALL, err);

    return r < 0 ? r : docker_client_open(docker, &job->client.config, err);
}

/* ---- ls ---- */

static const char *label(json_t *image, const char *name)
{
    return member_text(json_object_get(image, "Labels"), name);
}

/* Converts Docker's description; an image may have several names, or none. */
static json_t *describe(json_t *image)
{
    json_t *names = json_object_get(image, "RepoTags");
    const char *template = label(image, IMAGE_LABEL_TEMPLATE);

    return json_pack(
        "{s:O, s:s, s:s?, s:I, s:I, s:s}", "names", json_is_array(names) ? names : json_null(),
        "id", member_text(image, "Id"), "template", template[0] ? template : NULL, "bytes",
        json_integer_value(json_object_get(image, "Size")), "created_s",
        json_integer_value(json_object_get(image, "Created")), "bailey", label(image, IMAGE_LABEL));
}

static int list_table(json_t *images)
{
    static const char *const headings[] = {"NAME", "ID", "TEMPLATE", ">SIZE", "MADE", NULL};
    CLEANUP(table_free) struct table table;
    json_t *image;
    size_t i;

    table_begin(&table, headings);
    json_array_foreach(images, i, image)
    {
        const char *id = member_text(image, "id");
        int64_t made_s = json_integer_value(json_object_get(image, "created_s"));
        int64_t age_s = format_now() - MAX(made_s, (int64_t)0); /* Docker's value may be anything */
        char words[FORMAT_SIZE], when[FORMAT_SIZE + 8];

        table_cell(&table, json_string_value(json_array_get(json_object_get(image, "names"), 0)));
        format_id(str_starts(id, "sha256:") ? id + strlen("sha256:") : id, 12, words);
        table_cell(&table, words);
        table_cell(&table, member_text(image, "template"));
        format_bytes((uint64_t)json_integer_value(json_object_get(image, "bytes")), words);
        table_cell(&table, words);
        format_span(MAX(age_s, (int64_t)0), words);
        str_format(when, sizeof(when), "%s ago", words);
        table_cell(&table, when);
    }
    return table_show(&table);
}

static int list_names(json_t *images)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    json_t *image, *name;
    size_t i, k;

    json_array_foreach(images, i, image)
    {
        json_array_foreach(json_object_get(image, "names"), k, name)
        {
            if (json_is_string(name))
                buf_printf(&text, "%s\n", json_string_value(name));
        }
    }
    return print_guest_text(&text);
}

static int action_ls(struct action_job *job)
{
    CLEANUP(docker_client_close) struct docker_client docker = {0};
    CLEANUP(json_freep) json_t *found = NULL;
    CLEANUP(json_freep) json_t *images = json_array();
    struct error err = {0};
    json_t *image;
    size_t i;

    if (open_docker(job, &docker, &err) < 0 ||
        docker_client_call(&docker, "GET", OURS, &found, &err) < 0)
        return client_fail(job->request.is_json, &err);
    json_array_foreach(found, i, image)
    {
        json_array_append_new(images, describe(image));
    }
    if (job->request.is_json)
        return print_json(json_pack("{s:O}", "images", images));
    return job->request.is_quiet ? list_names(images) : list_table(images);
}

/* ---- rm ---- */

static int remove_one(struct docker_client *docker, const char *text, struct error *err)
{
    char path[2 * DOCKER_NAME_MAX];
    CLEANUP(json_freep) json_t *image = NULL;
    CLEANUP(json_freep) json_t *gone = NULL;
    int r;

    if (!docker_client_is_name(text))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'%.100s' is neither a name nor an id of an image", text);
    str_format(path, sizeof(path), "/images/%s/json", text);
    r = docker_client_call(docker, "GET", path, &image, err);
    if (r < 0)
        return r;
    if (!label(json_object_get(image, "Config"), IMAGE_LABEL)[0])
        return error_set(err, -EPERM, ERROR_BAD_INPUT,
                         "'%.100s' was not made by 'bailey image build'; 'docker rmi' removes it",
                         text);
    str_format(path, sizeof(path), "/images/%s", text);
    return docker_client_call(docker, "DELETE", path, &gone, err);
}

static int action_rm(struct action_job *job)
{
    CLEANUP(docker_client_close) struct docker_client docker = {0};
    struct error err = {0};
    int status = 0;

    if (open_docker(job, &docker, &err) < 0)
        return client_fail(job->request.is_json, &err);
    for (size_t i = 0; i < job->operand_count; i++) {
        err = (struct error){0};
        if (remove_one(&docker, job->operands[i], &err) < 0)
            status = client_fail(job->request.is_json, &err);
    }
    if (status == 0 && job->request.is_json)
        return print_json(json_pack("{s:i}", "removed", (int)job->operand_count));
    return status;
}

static const struct action actions[] = {
    {"build", 0, 0, "build [--template NAME] [--tag NAME[:TAG]] [--package NAME]...", NULL,
     .run = image_build},
    {"ls", 0, 0, "ls", "quiet", .run = action_ls},
    {"rm", 1, 63, "rm NAME...", "quiet", .run = action_rm},
};

int image_run(const struct invocation *invocation)
{
    return action_run(invocation, actions, ARRAY_SIZE(actions));
}
