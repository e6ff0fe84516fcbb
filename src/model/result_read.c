/*
 * result_read.c - a result from JSON; see result.h and docs/result.md.
 *
 * The tables mirror those of result_write.c. Members that are derived from others ("truncated",
 * "level") have no row here. All input is untrusted: types and ranges are checked, and words that
 * this program does not know never make a claim stronger.
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/result.h"

#define NS_PER_S 1e9
#define MS_PER_S 1e3
#define US_PER_MS 1000
#define SECONDS_MAX 1e9 /* its nanoseconds fit 64 bits */
#define SIGNAL_MAX 127
#define ERRNO_MAX 4095

enum kind { KIND_OWN, KIND_BOOL, KIND_COUNT, KIND_BY };

struct row {
    const char *name;
    enum kind kind;
    size_t offset;
    int (*take)(struct result *result, json_t *json, struct error *err);
};

#define MEMBER(kind_, member_) .kind = (kind_), .offset = offsetof(struct result, member_)

static int wrong(struct error *err, const char *name, const char *wanted)
{
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "result: '%s' has to be %s", name, wanted);
}

static int out_of_memory(struct error *err)
{
    return error_set(err, -ENOMEM, ERROR_ENGINE, "result: out of memory");
}

/* The text of a JSON string without a NUL in it; NULL for everything else. */
static const char *plain_text(const json_t *json)
{
    const char *value = json_string_value(json);

    return value && strlen(value) == json_string_length(json) ? value : NULL;
}

static int take_count(const char *name, const json_t *json, uint64_t max, uint64_t *ret,
                      struct error *err)
{
    json_int_t value = json_integer_value(json);

    if (!json_is_integer(json) || value < 0 || (uint64_t)value > max)
        return wrong(err, name, "a whole number in range");
    *ret = (uint64_t)value;
    return 0;
}

/* A number of seconds or cores in units of 1/scale. */
static int take_scaled(const char *name, const json_t *json, double max, double scale,
                       uint64_t *ret, struct error *err)
{
    double value = json_number_value(json);

    if (!json_is_number(json) || !(value >= 0) || value > max)
        return wrong(err, name, "a number in range");
    *ret = (uint64_t)(value * scale + 0.5);
    return 0;
}

static int take_by(const char *name, const json_t *json, enum limit_by *ret, struct error *err)
{
    const char *value = plain_text(json);

    if (!value)
        return wrong(err, name, "a text");
    /* A mechanism that is not known here is not claimed. */
    *ret = LIMIT_BY_NONE;
    for (int by = 0; by < _LIMIT_BY_MAX; by++) {
        if (str_equal(value, limit_by_name(by)))
            *ret = by;
    }
    return 0;
}

static int take_row(const struct row *row, struct result *result, json_t *json, struct error *err)
{
    char *member = (char *)result + row->offset;

    switch (row->kind) {
    case KIND_BOOL:
        if (!json_is_boolean(json))
            return wrong(err, row->name, "true or false");
        *(bool *)member = json_is_true(json);
        return 0;
    case KIND_COUNT:
        return take_count(row->name, json, INT64_MAX, (uint64_t *)member, err);
    case KIND_BY:
        return take_by(row->name, json, (enum limit_by *)member, err);
    case KIND_OWN:
        break;
    }
    return row->take(result, json, err);
}

static int take_object(const char *name, const struct row *rows, size_t row_count,
                       struct result *result, json_t *json, struct error *err)
{
    if (!json_is_object(json))
        return wrong(err, name, "an object");
    for (size_t i = 0; i < row_count; i++) {
        json_t *value = json_object_get(json, rows[i].name);
        int r = value ? take_row(&rows[i], result, value, err) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

/* Keeps a text that struct result only points to. */
static int keep_word(struct result *result, const char *value, const char **ret, struct error *err)
{
    if (strv_push(&result->words, value) < 0)
        return out_of_memory(err);
    *ret = result->words[strv_length(result->words) - 1];
    return 0;
}

static int take_exit_code(struct result *result, json_t *json, struct error *err)
{
    json_int_t value = json_integer_value(json);

    if (!json_is_integer(json) || value < INT_MIN || value > INT_MAX)
        return wrong(err, "exit_code", "a whole number in range");
    result->exit_code = (int)value;
    return 0;
}

static int take_duration(struct result *result, json_t *json, struct error *err)
{
    return take_scaled("duration", json, SECONDS_MAX, NS_PER_S, &result->duration_ns, err);
}

static int take_runtime(struct result *result, json_t *json, struct error *err)
{
    if (json_is_null(json))
        return 0;
    if (!plain_text(json))
        return wrong(err, "runtime", "a text");
    return keep_word(result, plain_text(json), &result->runtime, err);
}

static int take_warm(struct result *result, json_t *json, struct error *err)
{
    if (!plain_text(json))
        return wrong(err, "warm", "a text");
    return keep_word(result, plain_text(json), &result->warm, err);
}

static int take_fallback(struct result *result, json_t *json, struct error *err)
{
    const char *reason = plain_text(json_object_get(json, "reason"));

    const char *from = plain_text(json_object_get(json, "from"));
    int r;

    if (!reason || !from)
        return wrong(err, "fallback", "an object with a reason");
    r = keep_word(result, reason, &result->fallback, err);
    return r < 0 ? r : keep_word(result, from, &result->fallback_from, err);
}

static int take_id(const char *name, const json_t *json, char id[ID_MAX], struct error *err)
{
    const char *value = plain_text(json);

    if (!value || !str_copy(id, ID_MAX, value))
        return wrong(err, name, "a short text");
    return 0;
}

static int take_execution_id(struct result *result, json_t *json, struct error *err)
{
    return take_id("execution_id", json, result->execution_id, err);
}

static int take_session_id(struct result *result, json_t *json, struct error *err)
{
    return json_is_null(json) ? 0 : take_id("session_id", json, result->session_id, err);
}

static int take_signal(struct result *result, json_t *json, struct error *err)
{
    uint64_t value = 0;
    int r = json_is_null(json) ? 0 : take_count("signal", json, SIGNAL_MAX, &value, err);

    if (r == 0)
        result->signal = (int)value;
    return r;
}

static int take_blocked_imports(struct result *result, json_t *json, struct error *err)
{
    CLEANUP(strv_freep) char **list = NULL;

    if (!json_is_array(json))
        return wrong(err, "blocked_imports", "a list of texts");
    list = calloc(json_array_size(json) + 1, sizeof(*list));
    if (!list)
        return out_of_memory(err);
    for (size_t i = 0; i < json_array_size(json); i++) {
        const char *name = plain_text(json_array_get(json, i));

        if (!name)
            return wrong(err, "blocked_imports", "a list of texts");
        list[i] = strdup(name);
        if (!list[i])
            return out_of_memory(err);
    }
    strv_free(result->blocked_imports);
    result->blocked_imports = ptr_take(&list);
    return 0;
}

static int take_files(struct result *result, json_t *json, const char *list, const char *key,
                      struct error *err)
{
    if (!json_is_array(json))
        return wrong(err, list, "a list of files");
    for (size_t i = 0; i < json_array_size(json); i++) {
        json_t *file = json_array_get(json, i);
        const char *name = plain_text(json_object_get(file, "name"));
        const char *value = plain_text(json_object_get(file, key));
        bool is_path = str_equal(key, "path");
        uint64_t bytes = 0;
        int r = take_count("bytes", json_object_get(file, "bytes"), INT64_MAX, &bytes, err);

        if (r < 0)
            return r;
        if (!name || !value)
            return wrong(err, list, "a list of files");
        r = result_add_file(result, name, is_path ? value : NULL, bytes, is_path ? NULL : value);
        if (r == -EFBIG)
            return error_set(err, r, ERROR_TOO_LARGE, "result: too many files");
        if (r < 0)
            return out_of_memory(err);
    }
    return 0;
}

static int take_saved_files(struct result *result, json_t *json, struct error *err)
{
    return take_files(result, json, "files", "path", err);
}

static int take_skipped_files(struct result *result, json_t *json, struct error *err)
{
    return take_files(result, json, "skipped_files", "reason", err);
}

static int take_cpu_ms(struct result *result, json_t *json, struct error *err)
{
    uint64_t value = 0;
    int r;

    if (json_is_null(json))
        return 0;
    r = take_count("cpu_ms", json, INT64_MAX / US_PER_MS, &value, err);
    if (r < 0)
        return r;
    result->usage.cpu_us = value * US_PER_MS;
    result->usage.by = USAGE_BY_WARDEN; /* no more than that, silently */
    return 0;
}

static int take_max_rss(struct result *result, json_t *json, struct error *err)
{
    if (json_is_null(json))
        return 0;
    return take_count("max_rss_bytes", json, INT64_MAX, &result->usage.max_rss_bytes, err);
}

static int take_usage_by(struct result *result, json_t *json, struct error *err)
{
    const char *value = plain_text(json);

    if (!value && !json_is_null(json))
        return wrong(err, "usage.by", "a text or null");
    for (int by = 0; value && by < _USAGE_BY_MAX; by++) {
        const char *name = usage_by_name(by, result->runtime);

        if (name && str_equal(value, name))
            result->usage.by = by;
    }
    return 0;
}

static int take_timeout(struct result *result, json_t *json, struct error *err)
{
    return take_scaled("timeout_s", json, SECONDS_MAX, MS_PER_S, &result->limits.timeout_ms, err);
}

static int take_pids(struct result *result, json_t *json, struct error *err)
{
    uint64_t value = 0;
    int r = take_count("pids", json, UINT32_MAX, &value, err);

    if (r == 0)
        result->limits.pids = (uint32_t)value;
    return r;
}

static int take_cpus(struct result *result, json_t *json, struct error *err)
{
    uint64_t value = 0;
    int r = 0;

    if (!json_is_null(json)) {
        r = take_scaled("cpus", json, LIMIT_CPU_MILLIS_MAX / 1000, 1000, &value, err);
        /* 0 means all of them in the struct: a limit must not turn into none. */
        if (r == 0 && value == 0)
            r = wrong(err, "cpus", "at least 0.001 or null");
    }
    if (r == 0)
        result->limits.cpu_millis = (uint32_t)value;
    return r;
}

static int take_layer_names(const char *name, json_t *json, uint32_t *ret, struct error *err)
{
    uint32_t mask = 0;

    if (!json_is_array(json))
        return wrong(err, name, "a list of texts");
    for (size_t i = 0; i < json_array_size(json); i++) {
        const char *word = plain_text(json_array_get(json, i));

        if (!word)
            return wrong(err, name, "a list of texts");
        for (int layer = 0; layer < _ISOLATION_LAYER_MAX; layer++) {
            if (str_equal(word, isolation_layer_table[layer].name))
                mask |= ISOLATION_LAYER_BIT(layer);
        }
    }
    *ret = mask;
    return 0;
}

static int take_layers(struct result *result, json_t *json, struct error *err)
{
    return take_layer_names("layers", json, &result->layers, err);
}

static int take_missing(struct result *result, json_t *json, struct error *err)
{
    return take_layer_names("missing", json, &result->missing, err);
}

static int errno_from_name(const char *name)
{
    for (int num = 1; num <= ERRNO_MAX; num++) {
        if (str_equal(error_name(num), name))
            return num;
    }
    return 0;
}

static int take_error(struct result *result, json_t *json, struct error *err)
{
    const char *code = plain_text(json_object_get(json, "code"));
    const char *message = plain_text(json_object_get(json, "message"));
    json_t *stage = json_object_get(json, "stage");
    json_t *number = json_object_get(json, "errno");
    json_t *provider = json_object_get(json, "provider");
    size_t length;
    int r = 0;

    if (!code || !message || (stage && !plain_text(stage)) || (number && !plain_text(number)) ||
        (provider && !plain_text(provider)))
        return wrong(err, "error", "an object with a code and a message");
    result->error.code = error_code_find(code); /* codes compare by pointer */
    if (!str_equal(result->error.code, code))
        r = keep_word(result, code, &result->error.code, err);
    if (r == 0 && stage)
        r = keep_word(result, plain_text(stage), &result->error.stage, err);
    if (r == 0 && provider)
        r = keep_word(result, plain_text(provider), &result->error.provider, err);
    if (r == 0 && number)
        result->error.num = -errno_from_name(plain_text(number));
    length = utf8_floor(message, MIN(strlen(message), sizeof(result->error.text) - 1));
    memcpy(result->error.text, message, length);
    result->error.text[length] = '\0';
    return r;
}

/* Puts a checked member of `meta` about packages beside the others; takes over value. */
static int keep_install(struct result *result, const char *name, json_t *value, struct error *err)
{
    if (!result->install)
        result->install = json_object();
    return !value || json_object_set_new(result->install, name, value) < 0 ? out_of_memory(err) : 0;
}

static int take_installed(struct result *result, json_t *json, struct error *err)
{
    CLEANUP(json_decrefp) json_t *list = json_array();

    if (!json_is_array(json))
        return wrong(err, "installed", "a list of packages");
    for (size_t i = 0; list && i < json_array_size(json); i++) {
        const json_t *package = json_array_get(json, i);
        const char *name = plain_text(json_object_get(package, "name"));
        const char *version = plain_text(json_object_get(package, "version"));

        if (!name || !version)
            return wrong(err, "installed", "a list of packages");
        if (json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "version", version)) <
            0)
            return out_of_memory(err);
    }
    return keep_install(result, "installed", ptr_take(&list), err);
}

static int take_install_error(struct result *result, json_t *json, struct error *err)
{
    const char *code = plain_text(json_object_get(json, "code"));
    const char *message = plain_text(json_object_get(json, "message"));

    if (!code || !message)
        return wrong(err, "install_error", "an object with a code and a message");
    return keep_install(result, "install_error",
                        json_pack("{s:s, s:s}", "code", code, "message", message), err);
}

static int take_install_note(struct result *result, json_t *json, struct error *err)
{
    if (!plain_text(json))
        return wrong(err, "install_note", "a text");
    return keep_install(result, "install_note", json_string(plain_text(json)), err);
}

static const struct row usage_rows[] = {
    {"cpu_ms", .take = take_cpu_ms},
    {"max_rss_bytes", .take = take_max_rss},
    {"by", .take = take_usage_by}, /* behind cpu_ms */
};

static const struct row limit_rows[] = {
    {"timeout_s", .take = take_timeout},
    {"memory_bytes", MEMBER(KIND_COUNT, limits.memory_bytes)},
    {"memory_by", MEMBER(KIND_BY, memory_by)},
    {"pids", .take = take_pids},
    {"pids_by", MEMBER(KIND_BY, pids_by)},
    {"cpus", .take = take_cpus},
    {"cpu_by", MEMBER(KIND_BY, cpu_by)},
    {"disk_bytes", MEMBER(KIND_COUNT, limits.disk_bytes)},
    {"disk_by", MEMBER(KIND_BY, disk_by)},
    {"output_bytes", MEMBER(KIND_COUNT, limits.output_bytes)},
};

static const struct row isolation_rows[] = {
    {"layers", .take = take_layers},
    {"missing", .take = take_missing},
};

static int take_usage(struct result *result, json_t *json, struct error *err)
{
    return take_object("usage", usage_rows, ARRAY_SIZE(usage_rows), result, json, err);
}

static int take_limits(struct result *result, json_t *json, struct error *err)
{
    return take_object("resource_limits", limit_rows, ARRAY_SIZE(limit_rows), result, json, err);
}

static int take_isolation(struct result *result, json_t *json, struct error *err)
{
    return take_object("isolation", isolation_rows, ARRAY_SIZE(isolation_rows), result, json, err);
}

static const struct row meta_rows[] = {
    {"runtime", .take = take_runtime},
    {"warm", .take = take_warm},
    {"fallback", .take = take_fallback},
    {"execution_id", .take = take_execution_id},
    {"session_id", .take = take_session_id},
    {"stdout_truncated", MEMBER(KIND_BOOL, out.is_truncated)},
    {"stderr_truncated", MEMBER(KIND_BOOL, err.is_truncated)},
    {"stdout_bytes", MEMBER(KIND_COUNT, out.total_bytes)},
    {"stderr_bytes", MEMBER(KIND_COUNT, err.total_bytes)},
    {"stdout_invalid_bytes", MEMBER(KIND_COUNT, out.replaced_bytes)},
    {"stderr_invalid_bytes", MEMBER(KIND_COUNT, err.replaced_bytes)},
    {"timed_out", MEMBER(KIND_BOOL, timed_out)},
    {"oom_killed", MEMBER(KIND_BOOL, oom_killed)},
    {"disk_full", MEMBER(KIND_BOOL, disk_full)},
    {"signal", .take = take_signal},
    {"blocked_imports", .take = take_blocked_imports},
    {"files", .take = take_saved_files},
    {"total_output_files", MEMBER(KIND_COUNT, total_output_files)},
    {"skipped_files", .take = take_skipped_files},
    {"usage", .take = take_usage},
    {"resource_limits", .take = take_limits},
    {"isolation", .take = take_isolation},
    {"error", .take = take_error},
    {"installed", .take = take_installed},
    {"install_error", .take = take_install_error},
    {"install_note", .take = take_install_note},
};

/* The last position where the truncation line is alone on its line; `length` if there is none. */
static size_t find_mark(const char *text, size_t length)
{
    const size_t mark = sizeof(RESULT_TRUNCATED) - 1;

    for (size_t end = length; end >= mark; end--) {
        size_t at = end - mark;

        if ((end == length || text[end] == '\n') && (at == 0 || text[at - 1] == '\n') &&
            memcmp(text + at, RESULT_TRUNCATED, mark) == 0)
            return at;
    }
    return length;
}

static int keep_bytes(struct buf *buf, const char *data, size_t length, struct error *err)
{
    buf_clear(buf);
    buf->maximum = MAX(buf->maximum, length);
    return buf_append(buf, data, length) < 0 ? out_of_memory(err) : 0;
}

/*
 * The text of a stream without the line that says it was cut; of stderr the text behind that line
 * is the stream's end, with the engine's notes. A note cannot be distinguished from the program's
 * output and stays there.
 */
static int take_stream(const char *name, json_t *json, struct capture *capture, struct error *err)
{
    json_t *value = json_object_get(json, name);
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), kept, behind;
    int r;

    if (!text)
        return wrong(err, name, "a text");
    kept = capture->is_truncated ? find_mark(text, length) : length;
    if (!capture->keeps_end && length - kept > sizeof(RESULT_TRUNCATED) - 1)
        kept = length; /* nothing follows on stdout: this is the program's output */
    r = keep_bytes(&capture->kept, text, kept, err);
    behind = MIN(length, kept + sizeof(RESULT_TRUNCATED)); /* the mark and its newline */
    if (r == 0 && capture->keeps_end && behind < length)
        r = keep_bytes(&capture->tail, text + behind, length - behind, err);
    capture->end_bytes = capture->tail.length;
    return r;
}

int result_from_json(json_t *json, struct result *result, struct error *err)
{
    json_t *meta = json_object_get(json, "meta");
    int r;

    if (!json_is_object(json))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "result: not an object");
    if (!meta)
        return wrong(err, "meta", "an object");
    r = take_exit_code(result, json_object_get(json, "exit_code"), err);
    if (r == 0)
        r = take_duration(result, json_object_get(json, "duration"), err);
    if (r == 0)
        r = take_object("meta", meta_rows, ARRAY_SIZE(meta_rows), result, meta, err);
    /* After meta: its flags say how the texts end. */
    if (r == 0)
        r = take_stream("stdout", json, &result->out, err);
    if (r == 0)
        r = take_stream("stderr", json, &result->err, err);
    return r;
}
