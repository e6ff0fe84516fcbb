/* spec.c - what to run, as the members of a request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "lib/lib_private.h"

enum kind { TEXT, SECONDS };

/* Settings by name: `inner` is a member of the object `member`. */
static const struct {
    const char *name, *member, *inner;
    enum kind kind;
} settings[] = {
    {"memory", "limits", "memory", TEXT},
    {"cpus", "limits", "cpus", TEXT},
    {"pids", "limits", "pids", TEXT},
    {"disk", "limits", "disk", TEXT},
    {"timeout", "timeout", NULL, SECONDS},
    {"template", "template", NULL, TEXT},
    {"isolation", "isolation", NULL, TEXT},
    {"type", "type", NULL, TEXT},
    {"name", "name", NULL, TEXT},
    {"cwd", "cwd", NULL, TEXT},
    {"context", "context", NULL, TEXT},
    {"idle_timeout", "idle_timeout_s", NULL, SECONDS},
    {"max_age", "max_age_s", NULL, SECONDS},
};

bailey_spec *bailey_spec_new(void)
{
    struct bailey_spec *spec = calloc(1, sizeof(*spec));

    if (!spec)
        return NULL;
    spec->json = json_object();
    if (!spec->json) {
        free(spec);
        return NULL;
    }
    return spec;
}

void bailey_spec_free(bailey_spec *spec)
{
    if (!spec)
        return;
    json_decref(spec->json);
    free(spec);
}

/* Only the first error is kept; it is what using the description fails with. */
static int fails(struct bailey_spec *spec, int num, const char *what, const char *why)
{
    if (spec->err.num == 0)
        error_set(&spec->err, num, num == -ENOMEM ? ERROR_ENGINE : ERROR_BAD_INPUT, "%.100s: %s",
                  what, why);
    return num;
}

/* Jansson takes UTF-8 only, and says no more than no. */
static json_t *new_text(struct bailey_spec *spec, const char *what, const char *text, size_t length)
{
    json_t *json = text ? json_stringn(text, length) : NULL;

    if (!json)
        fails(spec, -EINVAL, what, "a text in UTF-8 is needed");
    return json;
}

static bool is_text(const char *text)
{
    json_t *json = json_string(text);

    json_decref(json);
    return json;
}

static int set(struct bailey_spec *spec, json_t *object, const char *member, json_t *value)
{
    if (!value)
        return spec->err.num;
    if (json_object_set_new(object, member, value) < 0)
        return fails(spec, -ENOMEM, member, "out of memory");
    return 0;
}

/* The object or array of this name, made at its first use. */
static json_t *inner(struct bailey_spec *spec, const char *member, bool is_array)
{
    json_t *found = json_object_get(spec->json, member);

    if (!found && set(spec, spec->json, member, is_array ? json_array() : json_object()) == 0)
        found = json_object_get(spec->json, member);
    if (!found)
        fails(spec, -ENOMEM, member, "out of memory");
    return found;
}

int bailey_spec_code(bailey_spec *spec, const char *language, const char *code, size_t length)
{
    const char *name = language ? language : "python";
    int r = spec ? set(spec, spec->json, "code", new_text(spec, "code", code, length)) : -ENOMEM;

    return r < 0
               ? r
               : set(spec, spec->json, "language", new_text(spec, "language", name, strlen(name)));
}

static int append(struct bailey_spec *spec, const char *member, const char *text)
{
    json_t *value = new_text(spec, member, text, text ? strlen(text) : 0);
    json_t *array = value ? inner(spec, member, true) : NULL;

    if (!array) {
        json_decref(value);
        return spec->err.num;
    }
    return json_array_append_new(array, value) < 0 ? fails(spec, -ENOMEM, member, "out of memory")
                                                   : 0;
}

int bailey_spec_program(bailey_spec *spec, const char *const *argv)
{
    int r = 0;

    if (!spec)
        return -ENOMEM;
    if (!argv || !argv[0])
        r = fails(spec, -EINVAL, "argv", "a program is needed");
    json_object_del(spec->json, "argv");
    for (; r == 0 && *argv; argv++)
        r = append(spec, "argv", *argv);
    return r;
}

int bailey_spec_argument(bailey_spec *spec, const char *argument)
{
    if (!spec)
        return -ENOMEM;
    return append(spec, "arguments", argument);
}

int bailey_spec_env(bailey_spec *spec, const char *name, const char *value)
{
    json_t *env = spec ? inner(spec, "env", false) : NULL;

    if (!env)
        return spec ? spec->err.num : -ENOMEM;
    if (!name || !name[0] || strchr(name, '=') || !is_text(name))
        return fails(spec, -EINVAL, "env", "a name in UTF-8 without '=' is needed");
    return set(spec, env, name, new_text(spec, name, value, value ? strlen(value) : 0));
}

int bailey_spec_stdin(bailey_spec *spec, const char *text, size_t length)
{
    if (!spec)
        return -ENOMEM;
    return set(spec, spec->json, "stdin", new_text(spec, "stdin", text, length));
}

static json_t *new_seconds(struct bailey_spec *spec, const char *name, const char *value)
{
    uint64_t ms;

    if (!value || str_to_millis(value, &ms) < 0) {
        fails(spec, -EINVAL, name, "a time such as \"30\" or \"250ms\" is needed");
        return NULL;
    }
    return json_real((double)ms / 1000.0);
}

int bailey_spec_set(bailey_spec *spec, const char *setting, const char *value)
{
    if (!spec)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        json_t *object = spec->json, *json;

        if (!str_equal(settings[i].name, setting))
            continue;
        if (settings[i].inner)
            object = inner(spec, settings[i].member, false);
        if (!object)
            return spec->err.num;
        json = settings[i].kind == SECONDS
                   ? new_seconds(spec, setting, value)
                   : new_text(spec, setting, value, value ? strlen(value) : 0);
        return set(spec, object, settings[i].inner ? settings[i].inner : settings[i].member, json);
    }
    return fails(spec, -EINVAL, setting ? setting : "a setting", "there is no such setting");
}

int bailey_spec_file(bailey_spec *spec, const char *host, const char *box)
{
    json_t *files = spec ? inner(spec, "files", true) : NULL;
    json_t *file = json_object();
    int r = -ENOMEM;

    if (files && file)
        r = set(spec, file, "host", new_text(spec, "file", host, host ? strlen(host) : 0));
    if (r == 0 && box)
        r = set(spec, file, "box", new_text(spec, "file", box, strlen(box)));
    if (r == 0 && json_array_append(files, file) < 0)
        r = -ENOMEM;
    json_decref(file);
    return r == -ENOMEM && spec ? fails(spec, r, "file", "out of memory") : r;
}

int bailey_spec_out(bailey_spec *spec, const char *folder)
{
    if (!spec)
        return -ENOMEM;
    return set(spec, spec->json, "out", new_text(spec, "out", folder, folder ? strlen(folder) : 0));
}

void bailey_spec_on_output(bailey_spec *spec, bailey_on_output on_output, void *ctx)
{
    if (!spec)
        return;
    spec->on_output = on_output;
    spec->ctx = ctx;
}

int spec_text(const struct bailey_spec *spec, char **ret, struct error *err)
{
    if (spec->err.num < 0) {
        *err = spec->err;
        return err->num;
    }
    if (spec_has(spec, "argv") && (spec_has(spec, "code") || spec_has(spec, "arguments")))
        return error_set(
            err, -EINVAL, ERROR_BAD_INPUT,
            "a description is of code or of a program, and bailey_spec_program() takes "
            "all arguments of the program: bailey_spec_code() and "
            "bailey_spec_argument() do not go with it");
    *ret = json_dumps(spec->json, JSON_COMPACT | JSON_REAL_PRECISION(15));
    return *ret ? 0 : error_memory(err);
}

bool spec_has(const struct bailey_spec *spec, const char *member)
{
    return json_object_get(spec->json, member);
}
