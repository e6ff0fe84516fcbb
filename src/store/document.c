/*
 * document.c - the contents of an artifact; see document.h.
 *
 * The value of --env MY_API_KEY=... is known to be a secret, and so is what redact() replaced in
 * the code (PASSWORD = "..."): both are looked for in the code and in the output, where programs
 * often print them; redact() then finds secrets by their shape.
 */
#include "store/document.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/text.h"
#include "store/redact.h"

#define KNOWN_MIN 6 /* a shorter value occurs in too many words to be looked for */

struct document {
    char **known; /* strv: secret values of env and of the code, the longest first */
};

static void document_free(struct document *document)
{
    strv_freep(&document->known);
}

static size_t name_length(const char *variable)
{
    return strcspn(variable, "=");
}

static bool is_secret_variable(const char *variable)
{
    return secrecy_of_name(variable, name_length(variable)) != SECRECY_NONE;
}

static const char *value_of(const char *variable)
{
    const char *equals = strchr(variable, '=');

    return equals ? equals + 1 : "";
}

static int collect_known(struct document *document, const char *const *env)
{
    for (; env && *env; env++) {
        if (is_secret_variable(*env) && strlen(value_of(*env)) >= KNOWN_MIN &&
            strv_push(&document->known, value_of(*env)) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int compare_lengths(const void *a, const void *b)
{
    size_t left = strlen(*(char *const *)a), right = strlen(*(char *const *)b);

    return left < right ? 1 : left > right ? -1 : 0;
}

/* Secrets of the code; a secret that contains another one is replaced first. */
static int collect_written(struct document *document, const char *code, size_t length)
{
    CLEANUP(buf_free) struct buf ignored = BUF_INIT(SIZE_MAX / 2);
    int r = redact_noting(code, length, &ignored, &document->known);

    if (r == 0 && strv_length(document->known) > 1)
        qsort(document->known, strv_length(document->known), sizeof(char *), compare_lengths);
    return r;
}

/* Replaces each occurrence of `known` in text. */
static int replace_known(struct buf *text, const char *known)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(text->maximum);
    const char *at = buf_text(text), *end = at + text->length, *hit;
    int r = 0;

    while (r == 0 && (hit = memmem(at, (size_t)(end - at), known, strlen(known)))) {
        r = buf_append(&out, at, (size_t)(hit - at));
        if (r == 0)
            r = buf_append_text(&out, REDACTED);
        at = hit + strlen(known);
    }
    if (r == 0 && at != buf_text(text)) {
        r = buf_append(&out, at, (size_t)(end - at));
        if (r == 0) {
            buf_free(text);
            *text = out;
            out = BUF_INIT(0);
        }
    }
    return r;
}

/* A JSON string without secrets; NULL when memory is out. */
static json_t *harmless(const struct document *document, const char *text, size_t length)
{
    CLEANUP(buf_free) struct buf known = BUF_INIT(SIZE_MAX / 2), out = BUF_INIT(SIZE_MAX / 2);

    if (buf_append(&known, text, length) < 0)
        return NULL;
    for (char **value = document->known; value && *value; value++) {
        if (replace_known(&known, *value) < 0)
            return NULL;
    }
    if (redact(buf_text(&known), known.length, &out) < 0)
        return NULL;
    return text_to_json(buf_text(&out), out.length);
}

static json_t *harmless_tree(const struct document *document, json_t *json);

static json_t *harmless_object(const struct document *document, json_t *json)
{
    CLEANUP(json_decrefp) json_t *copy = json_object();
    const char *key;
    json_t *value;

    json_object_foreach(json, key, value)
    {
        if (json_object_set_new(copy, key, harmless_tree(document, value)) < 0)
            return NULL;
    }
    return ptr_take(&copy);
}

static json_t *harmless_array(const struct document *document, json_t *json)
{
    CLEANUP(json_decrefp) json_t *copy = json_array();

    for (size_t i = 0; i < json_array_size(json); i++) {
        if (json_array_append_new(copy, harmless_tree(document, json_array_get(json, i))) < 0)
            return NULL;
    }
    return ptr_take(&copy);
}

/* A copy of the result with every string made harmless. Its depth is the contract's, not a guest's.
 */
static json_t *harmless_tree(const struct document *document, json_t *json)
{
    if (json_is_string(json))
        return harmless(document, json_string_value(json), json_string_length(json));
    if (json_is_object(json))
        return harmless_object(document, json);
    if (json_is_array(json))
        return harmless_array(document, json);
    return json_incref(json);
}

static json_t *make_env(const struct document *document, const char *const *env)
{
    CLEANUP(json_decrefp) json_t *object = json_object();

    for (; object && env && *env; env++) {
        CLEANUP(json_decrefp) json_t *name = text_to_json(*env, name_length(*env));
        json_t *value;

        if (!name)
            return NULL;
        value = is_secret_variable(*env)
                    ? json_string(REDACTED)
                    : harmless(document, value_of(*env), strlen(value_of(*env)));
        if (json_object_set_new(object, json_string_value(name), value) < 0)
            return NULL;
    }
    return ptr_take(&object);
}

/* What a reader sorts and searches records by. */
static json_t *make_metadata(const struct artifact *artifact)
{
    const struct result *result = artifact->result;
    const char *session = result->session_id;

    return json_pack("{s:s, s:s?, s:s, s:s?, s:i, s:f, s:b, s:s?, s:s}", "language",
                     artifact->language ? artifact->language : "", "runtime", result->runtime,
                     "execution_id", result->execution_id, "session_id",
                     session[0] ? session : NULL, "exit_code", result->exit_code, "duration",
                     (double)result->duration_ns / 1e9, "timed_out", result->timed_out, "error",
                     result->error.code, "engine_version", BAILEY_VERSION);
}

/* Making a text harmless takes 40 ms for each MiB, during which the broker serves no one else. */
static size_t stored_length(const struct artifact *artifact)
{
    return MIN(artifact->code_length, (size_t)LIMIT_STORED_CODE);
}

static int note_cut(json_t *object, const struct artifact *artifact)
{
    if (json_object_set_new(object, "code_truncated", json_true()) < 0)
        return -ENOMEM;
    return json_object_set_new(object, "code_bytes",
                               json_integer((json_int_t)artifact->code_length));
}

static json_t *make_tree(const struct document *document, const struct artifact *artifact)
{
    CLEANUP(json_decrefp) json_t *object = json_object();
    CLEANUP(json_decrefp) json_t *result = result_to_json(artifact->result);
    const char *language = artifact->language ? artifact->language : "";
    char now[32];

    if (!object || !result)
        return NULL;
    clock_iso(now, sizeof(now));
    if (json_object_set_new(object, "code",
                            harmless(document, artifact->code, stored_length(artifact))) < 0 ||
        (stored_length(artifact) < artifact->code_length && note_cut(object, artifact) < 0) ||
        json_object_set_new(object, "language", text_to_json(language, strlen(language))) < 0 ||
        json_object_set_new(object, "env", make_env(document, artifact->env)) < 0 ||
        json_object_set_new(object, "result", harmless_tree(document, result)) < 0 ||
        json_object_set_new(object, "timestamp", json_string(now)) < 0 ||
        json_object_set_new(object, "metadata", make_metadata(artifact)) < 0 ||
        json_object_set_new(object, "time", json_string(now)) < 0 ||
        json_object_set_new(object, "engine_version", json_string(BAILEY_VERSION)) < 0)
        return NULL;
    return ptr_take(&object);
}

int document_make(const struct artifact *artifact, char **ret, struct error *err)
{
    CLEANUP(document_free) struct document document = {0};
    CLEANUP(json_decrefp) json_t *tree = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT(SIZE_MAX / 2); /* its parts have their ceilings */

    document.known = strv_new();
    if (document.known && collect_known(&document, artifact->env) == 0 &&
        collect_written(&document, artifact->code, stored_length(artifact)) == 0)
        tree = make_tree(&document, artifact);
    if (!tree || text_of_json(tree, JSON_INDENT(2) | JSON_REAL_PRECISION(15), &text) < 0)
        return error_memory(err);
    *ret = ptr_take(&text.data);
    return 0;
}
