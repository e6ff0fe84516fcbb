/* request.c - a run as libbailey sends it, checked; see request.h. */
#include "maker/request.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/paths.h"
#include "maker/maker.h"
#include "runtime/provider.h"
#include "template/template.h"

/* Members that are a key of the configuration: `inner` is one of the object `member`. */
static const struct {
    const char *member, *inner;
    enum config_key key;
} settings[] = {
    {"timeout", NULL, KEY_TIMEOUT},     {"template", NULL, KEY_TEMPLATE},
    {"isolation", NULL, KEY_ISOLATION}, {"type", NULL, KEY_SANDBOX_TYPE},
    {"limits", "memory", KEY_MEMORY},   {"limits", "cpus", KEY_CPUS},
    {"limits", "pids", KEY_PIDS},       {"limits", "disk", KEY_DISK},
    {"limits", "timeout", KEY_TIMEOUT},
};

int maker_request_read(int fd, json_t **ret, struct error *err)
{
    CLEANUP(freep) char *text = NULL;
    struct maker_head head;
    json_error_t wrong;
    ssize_t length;

    length = fd_read_all(fd, &head, sizeof(head));
    if (length == 0)
        return error_set(err, -ECANCELED, ERROR_CANCELLED, "the caller has gone");
    if (length != (ssize_t)sizeof(head) || head.magic != MAKER_MAGIC ||
        head.length > MAKER_REQUEST_MAX)
        return error_set(err, -EPROTO, ERROR_ENGINE,
                         "this program is a part of libbailey, which executes it");
    text = malloc(head.length + 1);
    if (!text)
        return error_memory(err);
    if (fd_read_all(fd, text, head.length) != (ssize_t)head.length)
        return error_set(err, -ECANCELED, ERROR_CANCELLED, "the caller has gone");
    *ret = json_loadb(text, head.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &wrong);
    if (!json_is_object(*ret))
        return error_set(err, -EPROTO, ERROR_BAD_JSON, "the run is not a JSON object: %s",
                         wrong.text);
    return 0;
}

/* A text without NUL bytes; NULL with *err unset: there is none. */
static const char *text_of(json_t *json, const char *name, struct error *err)
{
    json_t *value = json_object_get(json, name);
    const char *text = json_string_value(value);

    if (value && (!text || strlen(text) != json_string_length(value)))
        error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: a text without NUL bytes is expected", name);
    return text;
}

static int set_one(struct maker_request *request, size_t row, json_t *value, struct error *err)
{
    char number[64];
    const char *text = json_string_value(value);
    char name[64];

    if (json_is_number(value)) {
        str_format(number, sizeof(number), "%.15g", json_number_value(value));
        text = number;
    }
    str_format(name, sizeof(name), "%s",
               settings[row].inner ? settings[row].inner : settings[row].member);
    if (!text)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: a text or a number is expected", name);
    return config_set(&request->config, settings[row].key, text, name, err);
}

static int configure(struct maker_request *request, char *const *env, struct error *err)
{
    int r = config_load(&request->config, NULL, env, err);

    for (size_t i = 0; i < ARRAY_SIZE(settings) && r == 0; i++) {
        json_t *value = json_object_get(request->json, settings[i].member);

        if (settings[i].inner)
            value = json_object_get(value, settings[i].inner);
        if (value)
            r = set_one(request, i, value, err);
    }
    if (r < 0)
        return r;
    if (!str_equal(request->config.type, PROVIDER_LOCAL))
        return error_set(
            err, -ENOTSUP, ERROR_BAD_CONFIG,
            "the type is '%s' (SANDBOX_TYPE, or the setting 'type'), and a box that is "
            "made in the caller's process is '" PROVIDER_LOCAL "'; use a server for that type",
            request->config.type);
    return config_check(&request->config, err);
}

/* As `bailey run` does: a template that was named needs the folder, "auto" may do without. */
static int find_state(struct maker_request *request, char *const *env, struct error *err)
{
    const char *name = request->config.template_name;
    struct paths paths = {0};
    struct error ignored = {0};
    bool is_needed = !str_equal(name, TEMPLATE_PLAIN) && !str_equal(name, TEMPLATE_AUTO);
    int r;

    if (str_equal(name, TEMPLATE_PLAIN))
        return 0;
    r = paths_choose(&paths, &request->config, env, NULL, NULL, is_needed ? err : &ignored);
    request->state = ptr_take(&paths.state);
    paths_free(&paths);
    return is_needed ? r : 0;
}

static int take_env(struct maker_request *request, struct error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(request->json, "env"), name, value)
    {
        CLEANUP(freep) char *line = NULL;
        const char *text = json_string_value(value);

        if (!text || strlen(text) != json_string_length(value) || !name[0] || strchr(name, '='))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "env: '%.100s' is not a name with a text without NUL bytes", name);
        if (asprintf(&line, "%s=%s", name, text) < 0 || strv_push(&request->env, line) < 0)
            return error_memory(err);
    }
    return 0;
}

static int take_words(json_t *words, const char *name, char ***ret, struct error *err)
{
    json_t *value;
    size_t i;

    json_array_foreach(words, i, value)
    {
        const char *text = json_string_value(value);

        if (!text || strlen(text) != json_string_length(value))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "%s: texts without NUL bytes are expected", name);
        if (strv_push(ret, text) < 0)
            return error_memory(err);
    }
    return 0;
}

static int take_files(struct maker_request *request, struct error *err)
{
    json_t *files = json_object_get(request->json, "files"), *file;
    size_t i;

    request->files = calloc(json_array_size(files) + 1, sizeof(*request->files));
    if (!request->files)
        return error_memory(err);
    json_array_foreach(files, i, file)
    {
        request->files[i].host = text_of(file, "host", err);
        request->files[i].box = text_of(file, "box", err);
        if (err->code || !request->files[i].host)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "files: a path is missing");
    }
    request->shot.files = request->files;
    request->shot.file_count = json_array_size(files);
    return 0;
}

/* The guest reads a file of this text. */
static int take_stdin(struct maker_request *request, struct error *err)
{
    json_t *text = json_object_get(request->json, "stdin");

    if (!text)
        return 0;
    request->stdin_fd = memfd_create("stdin", MFD_CLOEXEC);
    if (request->stdin_fd < 0)
        return error_errno(err, "making the standard input");
    if (fd_write_all(request->stdin_fd, json_string_value(text), json_string_length(text)) < 0 ||
        lseek(request->stdin_fd, 0, SEEK_SET) < 0)
        return error_errno(err, "writing the standard input");
    return 0;
}

static int take_what(struct maker_request *request, struct error *err)
{
    struct oneshot *shot = &request->shot;
    json_t *argv = json_object_get(request->json, "argv");
    json_t *code = json_object_get(request->json, "code");
    const char *language = text_of(request->json, "language", err);

    if (!argv == !code)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "nothing to run: code or a program is "
                         "needed, and not both");
    shot->name = text_of(request->json, "name", err);
    shot->out = text_of(request->json, "out", err);
    if (err->code)
        return err->num;
    if (code) {
        shot->language = language ? language : "python";
        shot->code = json_string_value(code);
        shot->code_length = json_string_length(code);
    }
    return take_words(argv ? argv : json_object_get(request->json, "arguments"),
                      argv ? "argv" : "arguments", &request->arguments, err);
}

int maker_request_load(json_t *json, char *const *env, struct maker_request *ret, struct error *err)
{
    int r;

    *ret = (struct maker_request){.json = json, .stdin_fd = -1};
    ret->env = strv_new();
    ret->arguments = strv_new();
    if (!ret->env || !ret->arguments)
        return error_memory(err);
    r = configure(ret, env, err);
    if (r == 0)
        r = take_what(ret, err);
    if (r == 0)
        r = take_env(ret, err);
    if (r == 0)
        r = take_files(ret, err);
    if (r == 0)
        r = take_stdin(ret, err);
    if (r == 0)
        r = find_state(ret, env, err);
    ret->shot.config = &ret->config;
    ret->shot.argv = (const char *const *)ret->arguments;
    ret->shot.env = (const char *const *)ret->env;
    ret->shot.stdin_fd = ret->stdin_fd;
    ret->shot.state = ret->state;
    return r;
}

void maker_request_free(struct maker_request *request)
{
    config_free(&request->config);
    strv_free(request->env);
    strv_free(request->arguments);
    free(request->files);
    free(request->state);
    fd_closep(&request->stdin_fd);
    json_decref(request->json);
    *request = (struct maker_request){.stdin_fd = -1};
}
