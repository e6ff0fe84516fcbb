/*
 * image_build.c - `bailey image build`: gathers a root file system and sends it to Docker.
 *
 * Docker creates an image only when the stream is complete; an interrupted build leaves none
 * behind. Fetched packages are in a temporary folder, which is removed at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "cli/client/format.h"
#include "cli/client/image.h"
#include "cli/client/progress_line.h"
#include "cli/message.h"
#include "cli/signals.h"
#include "image/root.h"
#include "image/stream.h"
#include "model/text.h"
#include "oneshot/built.h"
#include "runtime/docker/client.h"
#include "template/template.h"

#define SHOW_MS 100 /* interval of progress lines on a terminal */
#define PATH_INSIDE "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct build {
    struct action_job *job;
    struct docker_client docker;
    char name[DOCKER_NAME_MAX], tag[DOCKER_NAME_MAX];
    struct built_template template;
    struct image_python python;
    json_t *described; /* template.json of the layer */
    char **extra;      /* strv: packages */
    char scratch[LIMIT_PATH_BYTES + 1];
    struct image_tree tree;
    struct image_found found;
    struct image_stream stream;
    struct buf path, reply;
    struct http_exchange *exchange;
    unsigned status;
    struct error err; /* error of the request */
    json_t *image;    /* as Docker describes it */
    struct progress_line line;
    const char *stage;
    uint64_t shown_ms;
    int cancel_fd, signal; /* the signal received */
};

static void build_free(struct build *build)
{
    if (build->exchange)
        http_call_cancel(build->exchange);
    docker_client_close(&build->docker);
    built_free(&build->template);
    json_decref(build->described);
    json_decref(build->image);
    strv_free(build->extra);
    image_stream_free(&build->stream);
    image_tree_free(&build->tree);
    buf_free(&build->path);
    buf_free(&build->reply);
    if (build->scratch[0])
        folder_remove(AT_FDCWD, build->scratch);
    fd_closep(&build->cancel_fd);
    progress_line_clear(&build->line);
}

/* ---- progress ---- */

static bool is_stopped(void *ctx)
{
    struct build *build = ctx;

    if (!build->signal)
        build->signal = signals_taken(build->cancel_fd);
    return build->signal != 0;
}

/* A new stage is shown at once, progress within it only on a terminal. */
static bool is_time(struct build *build, const char *stage)
{
    uint64_t now_ms = clock_now_ms();
    bool is_new = !str_equal(build->stage, stage);

    if (!is_new && (!build->line.is_terminal || now_ms - build->shown_ms < SHOW_MS))
        return false;
    build->stage = stage;
    build->shown_ms = now_ms;
    return true;
}

static void tell(void *ctx, const char *stage, uint64_t done, uint64_t total)
{
    struct build *build = ctx;
    char text[160];

    if (!is_time(build, stage))
        return;
    if (total && build->line.is_terminal)
        str_format(text, sizeof(text), "%s: %llu of %llu", stage, (unsigned long long)done,
                   (unsigned long long)total);
    else
        str_format(text, sizeof(text), "%s", stage);
    progress_line_show(&build->line, text);
}

static void tell_sent(struct build *build)
{
    char sent[FORMAT_SIZE], all[FORMAT_SIZE], text[256];

    if (!is_time(build, "sending"))
        return;
    format_bytes(build->stream.bytes, sent);
    format_bytes(build->tree.bytes, all);
    if (build->line.is_terminal)
        str_format(text, sizeof(text), "sending to Docker: %s of %s, %llu of %llu files", sent, all,
                   (unsigned long long)build->stream.files, (unsigned long long)build->tree.files);
    else
        str_format(text, sizeof(text), "sending to Docker: %s, %llu files", all,
                   (unsigned long long)build->tree.files);
    progress_line_show(&build->line, text);
}

/* ---- arguments ---- */

static int find_template(struct build *build, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(4 * MIB);
    const char *name = build->job->request.template_name;
    struct client *client = &build->job->client;
    char path[LIMIT_PATH_BYTES + 1];
    int r;

    client->config.template_name = name ? name : TEMPLATE_PLAIN;
    r = built_find(&client->config, client->paths.state, &build->template, err);
    if (r < 0 || !build->template.layer)
        return r;
    r = image_template_python(build->template.layer, &build->python, err);
    if (r == 0 && build->python.is_debian && strv_push(&build->extra, build->python.package) < 0)
        r = error_memory(err);
    str_format(path, sizeof(path), "%s/template.json", build->template.layer);
    if (r == 0)
        r = image_read(path, &text, err);
    if (r == 0)
        build->described = json_loadb(buf_text(&text), text.length, 0, NULL);
    return r;
}

static int take_options(struct build *build, struct error *err)
{
    const struct parsed *parsed = &build->job->invocation->parsed;
    const char *tag = build->job->client.config.docker.image;

    option_given(parsed, "tag", &tag);
    build->extra = strv_new();
    for (size_t i = 0; build->extra && i < parsed->use_count; i++) {
        if (str_equal(parsed->uses[i].row->name, "package") &&
            strv_push(&build->extra, parsed->uses[i].value) < 0)
            return error_memory(err);
    }
    if (!build->extra)
        return error_memory(err);
    return docker_client_name(tag, build->name, build->tag, err);
}

static int make_scratch(struct build *build, struct error *err)
{
    const char *folder = getenv("TMPDIR");

    if (str_format(build->scratch, sizeof(build->scratch), "%s/bailey-image-XXXXXX",
                   folder && folder[0] == '/' ? folder : "/tmp") < 0 ||
        !mkdtemp(build->scratch)) {
        build->scratch[0] = '\0';
        return error_errno(err, "making a folder in %s", folder ? folder : "/tmp");
    }
    return 0;
}

/* Docker may run on another machine with another architecture. */
static int check_docker(struct build *build, struct error *err)
{
    CLEANUP(json_freep) json_t *version = NULL;
    int r = docker_client_call(&build->docker, "GET", "/version", &version, err);
    const char *arch = member_text(version, "Arch"), *own = build->found.architecture;

    if (r < 0 || !own[0] || !arch[0] || str_equal(arch, own))
        return r;
    if (!str_equal(own, "amd64") && !str_equal(own, "arm64"))
        return 0; /* other architectures have two names each */
    return error_set(err, -ENOEXEC, ERROR_IMAGE_UNUSABLE,
                     "Docker runs on %.40s and this machine is %s: an image of its packages cannot "
                     "run there. Build it on a machine of that kind",
                     arch, own);
}

static int gather(struct build *build, struct error *err)
{
    const struct image_work work = {.tell = tell, .is_stopped = is_stopped, .ctx = build};
    const struct image_packages from = {
        .root = "", .scratch = build->scratch, .extra = (const char *const *)build->extra};
    int r = image_add_packages(&build->tree, &from, &work, &build->found, err);

    if (r == 0 && build->template.layer) {
        tell(build, "gathering the template", 0, 0);
        r = image_add_template(&build->tree, build->template.layer, &build->python, err);
    }
    if (r == 0)
        r = image_add_own(&build->tree, err);
    return r < 0 ? r : image_check(&work, err);
}

/* ---- sending ---- */

/* &changes=LINE, with the arguments quoted as in a Dockerfile. */
static int add_change(struct build *build, const char *verb, const char *key, const char *value)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(64 * KIB);
    int r = buf_printf(&line, "%s %s=\"", verb, key);

    if (strpbrk(value, "\r\n"))
        return -EINVAL;
    for (; *value && r == 0; value++)
        r = buf_printf(&line, "%s%c", strchr("\"\\$", *value) ? "\\" : "", *value);
    if (r == 0)
        r = buf_append_text(&line, "\"");
    if (r == 0)
        r = buf_append_text(&build->path, "&changes=");
    return r < 0 ? r : http_encode(&build->path, buf_text(&line));
}

static int add_template_changes(struct build *build)
{
    CLEANUP(buf_free) struct buf tiers = BUF_INIT(64 * KIB), names = BUF_INIT(64 * KIB);
    const char *layer = strrchr(build->template.layer, '/') + 1;
    int r = 0;

    for (char **variable = build->template.env; variable && *variable && r == 0; variable++) {
        char *equals = strchr(*variable, '=');

        *equals = '\0';
        r = add_change(build, "ENV", *variable, equals + 1);
        if (r == 0)
            r = buf_printf(&names, "%s%s", names.length ? " " : "", *variable);
        *equals = '=';
    }
    if (r == 0 && names.length)
        r = add_change(build, "ENV", CONTAINER_VARIABLES, buf_text(&names));
    if (r == 0)
        r = text_of_json(json_object_get(build->described, "tiers"), JSON_COMPACT | JSON_ENCODE_ANY,
                         &tiers);
    if (r == 0)
        r = add_change(build, "LABEL", IMAGE_LABEL_TEMPLATE, build->job->request.template_name);
    if (r == 0)
        r = add_change(build, "LABEL", IMAGE_LABEL_LAYER, layer);
    return r < 0 ? r : add_change(build, "LABEL", IMAGE_LABEL_TIERS, buf_text(&tiers));
}

static int make_path(struct build *build, struct error *err)
{
    int r = buf_printf(&build->path, "/images/create?fromSrc=-&repo=");

    if (r == 0)
        r = http_encode(&build->path, build->name);
    if (r == 0)
        r = buf_printf(&build->path, "&tag=%s", build->tag);
    if (r == 0)
        r = add_change(build, "ENV", "PATH", PATH_INSIDE);
    if (r == 0)
        r = add_change(build, "ENV", "LANG", "C.UTF-8");
    if (r == 0)
        r = add_change(build, "LABEL", IMAGE_LABEL, BAILEY_VERSION);
    if (r == 0 && build->template.layer)
        r = add_template_changes(build);
    if (r == 0)
        r = buf_append_text(&build->path, "&changes=WORKDIR%20%2Fworkspace&changes=USER%201000&"
                                          "changes=CMD%20%5B%22%2Fbin%2Fbash%22%5D");
    if (r < 0)
        return error_set(err, r, ERROR_TOO_LARGE,
                         "the template's variables are too long for an image, or have line breaks");
    return 0;
}

static long on_read(void *ctx, void *data, size_t size)
{
    struct build *build = ctx;

    if (!build->stream.has_ended)
        tell_sent(build);
    return image_stream_read(&build->stream, data, size);
}

static void on_status(void *ctx, unsigned status)
{
    ((struct build *)ctx)->status = status;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    return buf_append(&((struct build *)ctx)->reply, data, length) < 0 ? -ECANCELED : 0;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct build *build = ctx;

    build->exchange = NULL;
    build->status = status;
    build->err = *err;
}

/* A sequence of JSON objects: {"status":"sha256:..."} at the end, or {"error":...}. */
static int read_reply(struct build *build, struct error *err)
{
    const char *at = buf_text(&build->reply);
    size_t left = build->reply.length;

    if (build->stream.err.num < 0) {
        *err = build->stream.err;
        return err->num;
    }
    if (build->status >= 400)
        return docker_client_refused(build->status, &build->reply, err);
    if (build->err.num < 0)
        return docker_client_lost(&build->docker, &build->err, err);
    while (left > 0) {
        json_error_t where;
        CLEANUP(json_freep)
        json_t *json = json_loadb(at, left, JSON_DISABLE_EOF_CHECK, &where);

        if (!json || where.position <= 0 || (size_t)where.position > left)
            break;
        if (json_object_get(json, "error"))
            return error_set(err, -EIO, ERROR_ENGINE, "Docker: %.400s", member_text(json, "error"));
        at += where.position;
        left -= (size_t)where.position;
    }
    return 0;
}

static int send(struct build *build, struct error *err)
{
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    static const char *const headers[] = {"Content-Type: application/x-tar", NULL};
    const struct http_call call = {.method = "POST",
                                   .path = buf_text(&build->path),
                                   .headers = headers,
                                   .body_read = on_read,
                                   .body_ctx = build,
                                   .body_total = -1};
    int r;

    image_stream_begin(&build->stream, &build->tree);
    r = http_call_start(build->docker.http, &call, &events, build, &build->exchange, err);
    while (r >= 0 && build->exchange) {
        struct pollfd poller = {.fd = build->cancel_fd, .events = POLLIN};

        r = http_client_wait(build->docker.http, &poller, 1, -1);
        if (is_stopped(build))
            return error_set(err, -ECANCELED, ERROR_CANCELLED, "interrupted");
        if (build->stream.has_ended && build->stream.head.length == 0 && build->exchange)
            tell(build, "Docker unpacks it", 0, 0);
    }
    if (r < 0)
        return err->num < 0 ? err->num
                            : error_set(err, r, ERROR_ENGINE, "sending: %s", strerror(-r));
    return read_reply(build, err);
}

/* ---- the end ---- */

static int inspect(struct build *build, struct error *err)
{
    char path[2 * DOCKER_NAME_MAX + 32];

    str_format(path, sizeof(path), "/images/%s:%s/json", build->name, build->tag);
    return docker_client_call(&build->docker, "GET", path, &build->image, err);
}

/* "Python 3.11, Node.js, Bash" */
static void what_it_has(const struct build *build, char *text, size_t size)
{
    const struct image_entry *python = image_tree_find(&build->tree, "usr/bin/python3");
    bool has_node = image_tree_find(&build->tree, "usr/bin/node") != NULL;
    const char *version = build->python.version[0] ? build->python.version
                          : python && python->kind == TAR_LINK && str_starts(python->text, "python")
                              ? python->text + 6
                              : "3";

    str_format(text, size, "Python %s, Bash%s", version, has_node ? ", Node.js" : "");
}

static int print_built(const struct build *build)
{
    const struct client_request *request = &build->job->request;
    const char *id = member_text(build->image, "Id");
    json_int_t bytes = json_integer_value(json_object_get(build->image, "Size"));
    char size[FORMAT_SIZE], has[128];

    what_it_has(build, has, sizeof(has));
    if (request->is_json)
        return print_json(json_pack(
            "{s:s, s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:s}", "name", build->name, "tag",
            build->tag, "id", id, "template", request->template_name, "bytes", bytes, "files",
            (json_int_t)build->tree.files, "packages", (json_int_t)build->found.packages, "fetched",
            (json_int_t)build->found.fetched, "has", has));
    if (request->is_quiet) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);

        buf_printf(&text, "%.200s\n", id);
        return print_guest_text(&text);
    }
    format_bytes((uint64_t)bytes, size);
    message_print("the image %s:%s is made: %.19s, %s", build->name, build->tag, id, size);
    message_print("it has %s, %zu packages of Debian (%zu fetched)%s%s", has, build->found.packages,
                  build->found.fetched, request->template_name ? ", the template " : "",
                  request->template_name ? request->template_name : "");
    return 0;
}

static int run(struct build *build, struct error *err)
{
    struct action_job *job = build->job;
    int r = client_open(&job->client, job->request.config_file, job->invocation->env,
                        CLIENT_NO_CALL, err);

    if (r == 0)
        r = take_options(build, err);
    if (r == 0)
        r = find_template(build, err);
    if (r == 0)
        r = docker_client_open(&build->docker, &job->client.config, err);
    if (r == 0)
        r = check_docker(build, err); /* before the work */
    if (r == 0)
        r = make_path(build, err);
    if (r == 0)
        r = signals_open(&build->cancel_fd, err);
    if (r == 0)
        r = make_scratch(build, err);
    if (r == 0)
        r = gather(build, err);
    if (r == 0)
        r = check_docker(build, err); /* again, now that the architecture is known */
    if (r == 0)
        r = send(build, err);
    return r == 0 ? inspect(build, err) : r;
}

int image_build(struct action_job *job)
{
    CLEANUP(build_free)
    struct build build = {.job = job,
                          .line =
                              progress_line_begin(job->request.is_quiet || job->request.is_json),
                          .path = BUF_INIT(LIMIT_HTTP_TARGET),
                          .reply = BUF_INIT(MIB),
                          .stream.fd = -1,
                          .cancel_fd = -1};
    struct error err = {0};
    int r;

    if (str_equal(job->request.template_name, TEMPLATE_PLAIN))
        job->request.template_name = NULL;
    r = run(&build, &err);
    progress_line_clear(&build.line);
    if (build.signal) {
        message_print("interrupted: no image was made");
        return 128 + build.signal;
    }
    return r < 0 ? client_fail(job->request.is_json, &err) : print_built(&build);
}
