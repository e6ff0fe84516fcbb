/*
 * result_write.c - the one result as JSON; see result.h and docs/result.md.
 *
 * Each object of the JSON is a table of rows in the order of the contract. A row that is a plain
 * member of struct result names its kind and offset; the others bring a function.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/result.h"
#include "model/text.h"

#define NS_PER_S 1e9

static const char STAYED[] = "stayed in the box";

/* A result on its way out, with what is worked out once for several members. */
struct writer {
    const struct result *result;
    struct buf out, err; /* the texts */
    uint64_t out_invalid_bytes, err_invalid_bytes;
};

enum kind { KIND_OWN, KIND_BOOL, KIND_COUNT, KIND_BY };

struct row {
    const char *name;
    enum kind kind;
    size_t offset;
    json_t *(*make)(const struct writer *writer); /* NULL: memory is out */
};

#define MEMBER(kind_, member_) .kind = (kind_), .offset = offsetof(struct result, member_)

static json_t *text(const char *value)
{
    return value ? text_to_json(value, strlen(value)) : json_null();
}

static json_t *count(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Thousandths as people write them: 30 and 0.5, not 30.0. */
static json_t *thousandths(uint64_t value)
{
    return value % 1000 ? json_real((double)value / 1000) : count(value / 1000);
}

static json_t *make_row(const struct row *row, const struct writer *writer)
{
    const char *member = (const char *)writer->result + row->offset;

    switch (row->kind) {
    case KIND_BOOL:
        return json_boolean(*(const bool *)member);
    case KIND_COUNT:
        return count(*(const uint64_t *)member);
    case KIND_BY:
        return text(limit_by_name(*(const enum limit_by *)member));
    case KIND_OWN:
        break;
    }
    return row->make(writer);
}

static json_t *make_object(const struct row *rows, size_t row_count, const struct writer *writer)
{
    json_t *object = json_object();

    for (size_t i = 0; object && i < row_count; i++) {
        /* set_new refuses a NULL value and owns the others, also when it fails. */
        if (json_object_set_new(object, rows[i].name, make_row(&rows[i], writer)) < 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

/* Appends and consumes `value`; on failure the array is gone and NULL comes back. */
static json_t *append(json_t *array, json_t *value)
{
    if (!array) {
        json_decref(value);
        return NULL;
    }
    if (json_array_append_new(array, value) == 0)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *make_stdout(const struct writer *writer)
{
    return json_stringn_nocheck(buf_text(&writer->out), writer->out.length);
}

static json_t *make_stderr(const struct writer *writer)
{
    return json_stringn_nocheck(buf_text(&writer->err), writer->err.length);
}

static json_t *make_exit_code(const struct writer *writer)
{
    return json_integer(writer->result->exit_code);
}

static json_t *make_duration(const struct writer *writer)
{
    return json_real((double)writer->result->duration_ns / NS_PER_S);
}

static json_t *make_runtime(const struct writer *writer)
{
    return text(writer->result->runtime);
}

static json_t *make_execution_id(const struct writer *writer)
{
    return text(writer->result->execution_id);
}

static json_t *make_session_id(const struct writer *writer)
{
    return text(writer->result->session_id[0] ? writer->result->session_id : NULL);
}

static json_t *make_truncated(const struct writer *writer)
{
    return json_boolean(writer->result->out.is_truncated || writer->result->err.is_truncated);
}

static json_t *make_stdout_invalid(const struct writer *writer)
{
    return count(writer->out_invalid_bytes);
}

static json_t *make_stderr_invalid(const struct writer *writer)
{
    return count(writer->err_invalid_bytes);
}

static json_t *make_signal(const struct writer *writer)
{
    return writer->result->signal ? json_integer(writer->result->signal) : json_null();
}

static json_t *make_blocked_imports(const struct writer *writer)
{
    json_t *array = json_array();

    for (char **name = writer->result->blocked_imports; array && name && *name; name++)
        array = append(array, text(*name));
    return array;
}

static json_t *make_file(const char *name, const char *key, const char *value, uint64_t bytes)
{
    json_t *object = json_object();

    if (!object || json_object_set_new(object, "name", text(name)) < 0 ||
        json_object_set_new(object, key, text(value)) < 0 ||
        json_object_set_new(object, "bytes", count(bytes)) < 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *make_output_files(const struct writer *writer)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < writer->result->file_count; i++) {
        const struct output_file *file = &writer->result->files[i];

        if (file->path && !file->skipped)
            array = append(array, text(file->name));
    }
    return array;
}

static json_t *make_files(const struct writer *writer)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < writer->result->file_count; i++) {
        const struct output_file *file = &writer->result->files[i];

        if (file->path && !file->skipped)
            array = append(array, make_file(file->name, "path", file->path, file->bytes));
    }
    return array;
}

static json_t *make_skipped_files(const struct writer *writer)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < writer->result->file_count; i++) {
        const struct output_file *file = &writer->result->files[i];
        const char *reason = file->skipped ? file->skipped : STAYED;

        if (file->skipped || !file->path)
            array = append(array, make_file(file->name, "reason", reason, file->bytes));
    }
    return array;
}

static json_t *make_cpu_ms(const struct writer *writer)
{
    if (!usage_by_name(writer->result->usage.by, writer->result->runtime))
        return json_null();
    return count(writer->result->usage.cpu_us / 1000 +
                 (writer->result->usage.cpu_us % 1000 >= 500));
}

static json_t *make_max_rss(const struct writer *writer)
{
    const struct usage *usage = &writer->result->usage;

    return usage_by_name(usage->by, writer->result->runtime) && usage->max_rss_bytes
               ? count(usage->max_rss_bytes)
               : json_null();
}

static json_t *make_usage_by(const struct writer *writer)
{
    const char *name = usage_by_name(writer->result->usage.by, writer->result->runtime);

    return name ? text(name) : json_null();
}

static json_t *make_timeout(const struct writer *writer)
{
    return thousandths(writer->result->limits.timeout_ms);
}

static json_t *make_pids(const struct writer *writer)
{
    return count(writer->result->limits.pids);
}

static json_t *make_cpus(const struct writer *writer)
{
    uint32_t millis = writer->result->limits.cpu_millis;

    return millis ? thousandths(millis) : json_null();
}

/* Deadlines and output limits are the engine's own, whatever the runtime. */
static json_t *make_by_engine(const struct writer *writer)
{
    (void)writer;
    return text(limit_by_name(LIMIT_BY_ENGINE));
}

/* Only a file system of the box's own counts inodes. */
static json_t *make_inodes(const struct writer *writer)
{
    return writer->result->disk_by == LIMIT_BY_TMPFS
               ? count(LIMIT_INODES(writer->result->limits.disk_bytes))
               : json_null();
}

static json_t *make_level(const struct writer *writer)
{
    return text(isolation_name(isolation_of_layers(writer->result->layers)));
}

static json_t *layer_names(uint32_t mask)
{
    json_t *array = json_array();

    for (int layer = 0; array && layer < _ISOLATION_LAYER_MAX; layer++) {
        if (mask & ISOLATION_LAYER_BIT(layer))
            array = append(array, text(isolation_layer_table[layer].name));
    }
    return array;
}

static json_t *make_layers(const struct writer *writer)
{
    return layer_names(writer->result->layers);
}

static json_t *make_missing(const struct writer *writer)
{
    return layer_names(writer->result->missing);
}

static json_t *make_error(const struct error *error)
{
    json_t *object = json_object();
    int failed = !object;

    if (!failed)
        failed = json_object_set_new(object, "code", text(error->code)) < 0 ||
                 json_object_set_new(object, "message", text(error->text)) < 0;
    if (!failed && error->stage)
        failed = json_object_set_new(object, "stage", text(error->stage)) < 0;
    if (!failed && error->provider)
        failed = json_object_set_new(object, "provider", text(error->provider)) < 0;
    if (!failed && error->num)
        failed = json_object_set_new(object, "errno", text(error_name(abs(error->num)))) < 0;
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static const struct row usage_rows[] = {
    {"cpu_ms", .make = make_cpu_ms},
    {"max_rss_bytes", .make = make_max_rss},
    {"by", .make = make_usage_by},
};

static const struct row limit_rows[] = {
    {"timeout_s", .make = make_timeout},
    {"timeout_by", .make = make_by_engine},
    {"memory_bytes", MEMBER(KIND_COUNT, limits.memory_bytes)},
    {"memory_by", MEMBER(KIND_BY, memory_by)},
    {"pids", .make = make_pids},
    {"pids_by", MEMBER(KIND_BY, pids_by)},
    {"cpus", .make = make_cpus},
    {"cpu_by", MEMBER(KIND_BY, cpu_by)},
    {"disk_bytes", MEMBER(KIND_COUNT, limits.disk_bytes)},
    {"disk_inodes", .make = make_inodes},
    {"disk_by", MEMBER(KIND_BY, disk_by)},
    {"output_bytes", MEMBER(KIND_COUNT, limits.output_bytes)},
    {"output_by", .make = make_by_engine},
};

static const struct row isolation_rows[] = {
    {"level", .make = make_level},
    {"layers", .make = make_layers},
    {"missing", .make = make_missing},
};

static json_t *make_usage(const struct writer *writer)
{
    return make_object(usage_rows, ARRAY_SIZE(usage_rows), writer);
}

static json_t *make_limits(const struct writer *writer)
{
    return make_object(limit_rows, ARRAY_SIZE(limit_rows), writer);
}

static json_t *make_isolation(const struct writer *writer)
{
    return make_object(isolation_rows, ARRAY_SIZE(isolation_rows), writer);
}

static const struct row meta_rows[] = {
    {"runtime", .make = make_runtime},
    {"execution_id", .make = make_execution_id},
    {"session_id", .make = make_session_id},
    {"truncated", .make = make_truncated},
    {"stdout_truncated", MEMBER(KIND_BOOL, out.is_truncated)},
    {"stderr_truncated", MEMBER(KIND_BOOL, err.is_truncated)},
    {"stdout_bytes", MEMBER(KIND_COUNT, out.total_bytes)},
    {"stderr_bytes", MEMBER(KIND_COUNT, err.total_bytes)},
    {"stdout_invalid_bytes", .make = make_stdout_invalid},
    {"stderr_invalid_bytes", .make = make_stderr_invalid},
    {"timed_out", MEMBER(KIND_BOOL, timed_out)},
    {"oom_killed", MEMBER(KIND_BOOL, oom_killed)},
    {"disk_full", MEMBER(KIND_BOOL, disk_full)},
    {"signal", .make = make_signal},
    {"blocked_imports", .make = make_blocked_imports},
    {"output_files", .make = make_output_files},
    {"files", .make = make_files},
    {"total_output_files", MEMBER(KIND_COUNT, total_output_files)},
    {"skipped_files", .make = make_skipped_files},
    {"usage", .make = make_usage},
    {"resource_limits", .make = make_limits},
    {"isolation", .make = make_isolation},
};

static json_t *make_fallback(const struct result *result)
{
    return json_pack("{s:o*, s:o*, s:o*}", "from", text(result->fallback_from), "to",
                     text(result->runtime), "reason", text(result->fallback));
}

static json_t *make_meta(const struct writer *writer)
{
    const struct error *error = &writer->result->error;
    json_t *meta = make_object(meta_rows, ARRAY_SIZE(meta_rows), writer);

    if (meta && error->code && json_object_set_new(meta, "error", make_error(error)) < 0) {
        json_decref(meta);
        return NULL;
    }
    if (meta && writer->result->warm &&
        json_object_set_new(meta, "warm", text(writer->result->warm)) < 0) {
        json_decref(meta);
        return NULL;
    }
    if (meta && writer->result->fallback &&
        json_object_set_new(meta, "fallback", make_fallback(writer->result)) < 0) {
        json_decref(meta);
        return NULL;
    }
    if (meta && writer->result->trace_id[0] &&
        json_object_set_new(meta, "trace_id", text(writer->result->trace_id)) < 0) {
        json_decref(meta);
        return NULL;
    }
    if (meta && writer->result->install && json_object_update(meta, writer->result->install) < 0) {
        json_decref(meta);
        return NULL;
    }
    return meta;
}

static const struct row result_rows[] = {
    {"stdout", .make = make_stdout},       {"stderr", .make = make_stderr},
    {"exit_code", .make = make_exit_code}, {"duration", .make = make_duration},
    {"meta", .make = make_meta},
};

/* Puts the engine's own lines behind what the program wrote, on a line of their own. */
static int append_note(struct buf *text_, const struct buf *note)
{
    uint64_t invalid_bytes = 0;
    int r = 0;

    if (note->length == 0)
        return 0;
    if (text_->length > 0 && text_->data[text_->length - 1] != '\n')
        r = buf_append_text(text_, "\n");
    return r < 0 ? r : text_clean(text_, buf_text(note), note->length, false, &invalid_bytes);
}

/* A line of the engine, unless the text has it already: a result that was read from JSON does. */
static int append_line(struct buf *text_, const char *words)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(4 * sizeof(((struct error *)NULL)->text));
    uint64_t invalid_bytes = 0;
    int r = text_clean(&line, words, strlen(words), false, &invalid_bytes);

    if (r == 0)
        r = buf_append_text(&line, "\n");
    if (r == 0 && text_->length >= line.length &&
        memmem(text_->data, text_->length, line.data, line.length))
        return 0;
    if (r == 0 && text_->length > 0 && text_->data[text_->length - 1] != '\n')
        r = buf_append_text(text_, "\n");
    return r < 0 ? r : buf_append(text_, line.data, line.length);
}

/* Names the limit, and what the one who wrote the code can do. */
static int append_memory(struct buf *text_, const struct result *result)
{
    char limit[32], line[256];

    str_from_bytes(result->limits.memory_bytes, limit, sizeof(limit));
    str_format(line, sizeof(line),
               "out of memory: the box has %s for everything, its files in /tmp and /workspace "
               "included. Hold less at once: read in pieces, fewer columns, smaller types",
               limit);
    return append_line(text_, line);
}

static int append_engine(struct buf *text_, const struct result *result)
{
    int r = append_note(text_, &result->note);

    if (r == 0 && result->oom_killed)
        r = append_memory(text_, result);
    if (r == 0 && result->error.code && result->error.text[0])
        r = append_line(text_, result->error.text);
    return r;
}

int result_stdout(const struct result *result, struct buf *text_)
{
    uint64_t invalid_bytes;

    return capture_text(&result->out, text_, &invalid_bytes);
}

int result_stderr(const struct result *result, struct buf *text_)
{
    uint64_t invalid_bytes;
    int r = capture_text(&result->err, text_, &invalid_bytes);

    return r < 0 ? r : append_engine(text_, result);
}

json_t *result_to_json(const struct result *result)
{
    struct writer writer = {
        .result = result,
        .out = BUF_INIT(SIZE_MAX / 2), /* the bytes were bounded when they were captured */
        .err = BUF_INIT(SIZE_MAX / 2),
    };
    json_t *json = NULL;

    if (capture_text(&result->out, &writer.out, &writer.out_invalid_bytes) == 0 &&
        capture_text(&result->err, &writer.err, &writer.err_invalid_bytes) == 0 &&
        append_engine(&writer.err, result) == 0)
        json = make_object(result_rows, ARRAY_SIZE(result_rows), &writer);
    buf_free(&writer.out);
    buf_free(&writer.err);
    return json;
}
