/*
 * yaml.c - YAML text into a jansson tree, by libyaml's events; see config.h.
 *
 * Only what JSON can say is accepted: aliases, anchors, tags, duplicate keys, keys that are no
 * scalars and second documents are errors, so that a file means the same to every reader and a
 * small one cannot grow into a large tree. Plain scalars become null, true, false, integers and
 * reals by the core schema (no octal, no "yes"); all others stay text.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config_private.h"

#define YAML_DEPTH_MAX 64

struct level {
    json_t *container;  /* borrowed: its parent, or the reader's root, owns it */
    char *key;          /* owned: the key that waits for its value */
    unsigned long line; /* line of that key */
};

struct reader {
    const char *name; /* the file, for errors */
    struct level levels[YAML_DEPTH_MAX];
    size_t depth;
    json_t *root; /* owned */
    size_t documents;
    struct yaml_entries *entries;
    struct error *err;
};

static unsigned long line_of(const yaml_event_t *event)
{
    return (unsigned long)event->start_mark.line + 1;
}

static int refuse(struct reader *reader, const yaml_event_t *event, const char *what)
{
    return error_set(reader->err, -EINVAL, ERROR_BAD_CONFIG, "%s:%lu: %s", reader->name,
                     line_of(event), what);
}

static int out_of_memory(struct reader *reader)
{
    return error_set(reader->err, -ENOMEM, ERROR_ENGINE, "reading %s: out of memory", reader->name);
}

const struct yaml_entry *yaml_entries_find(const struct yaml_entries *entries,
                                           const json_t *mapping, const char *key)
{
    for (size_t i = 0; i < entries->count; i++) {
        const struct yaml_entry *entry = &entries->rows[i];

        if (entry->mapping == mapping && str_equal(entry->key, key))
            return entry;
    }
    return NULL;
}

void yaml_entries_free(struct yaml_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        free(entries->rows[i].key);
        free(entries->rows[i].raw);
    }
    free(entries->rows);
    *entries = (struct yaml_entries){0};
}

/* Records the line of an entry. Takes `key` on success. */
static int entries_add(struct yaml_entries *entries, const json_t *mapping, char *key,
                       const char *raw, unsigned long line)
{
    CLEANUP(freep) char *raw_copy = raw ? strdup(raw) : NULL;

    if (raw && !raw_copy)
        return -ENOMEM;
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity ? entries->capacity * 2 : 32;
        void *rows = reallocarray(entries->rows, capacity, sizeof(*entries->rows));

        if (!rows)
            return -ENOMEM;
        entries->rows = rows;
        entries->capacity = capacity;
    }
    entries->rows[entries->count++] = (struct yaml_entry){
        .mapping = mapping, .key = key, .raw = ptr_take(&raw_copy), .line = line};
    return 0;
}

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (strcmp(text, *words) == 0)
            return true;
    }
    return false;
}

/* "-12" but neither "012" (octal to some parsers) nor "+12". */
static bool looks_integer(const char *text)
{
    const char *digits = text + (text[0] == '-');

    return digits[0] >= '0' && digits[0] <= '9' && (digits[0] != '0' || digits[1] == '\0') &&
           digits[strspn(digits, "0123456789")] == '\0';
}

/* "1.5", "-0.5", "1e3": a digit first, so that ".inf", "nan" and "0x1p3" stay text. */
static bool looks_real(const char *text)
{
    const char *rest = text + (text[0] == '-');
    size_t whole = strspn(rest, "0123456789");
    size_t digits;

    if (whole == 0 || (rest[0] == '0' && whole > 1))
        return false;
    rest += whole;
    if (*rest == '.') {
        digits = strspn(++rest, "0123456789");
        if (digits == 0)
            return false;
        rest += digits;
    }
    if (*rest == 'e' || *rest == 'E') {
        rest++;
        rest += *rest == '+' || *rest == '-';
        digits = strspn(rest, "0123456789");
        if (digits == 0)
            return false;
        rest += digits;
    }
    return *rest == '\0';
}

static json_t *plain_scalar(const char *text)
{
    static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const true_words[] = {"true", "True", "TRUE", NULL};
    static const char *const false_words[] = {"false", "False", "FALSE", NULL};
    int64_t integer;
    double real;

    if (is_one_of(text, null_words))
        return json_null();
    if (is_one_of(text, true_words))
        return json_true();
    if (is_one_of(text, false_words))
        return json_false();
    if (looks_integer(text) && str_to_i64(text, &integer) == 0)
        return json_integer(integer);
    if (looks_real(text) && !looks_integer(text)) {
        real = strtod(text, NULL);
        if (isfinite(real))
            return json_real(real);
    }
    return json_string(text);
}

/* Adds a new value at the reader's position. Takes the reference to `value`, also on an error. */
static int place(struct reader *reader, json_t *value, const char *raw)
{
    struct level *level;
    CLEANUP(freep) char *key = NULL;
    json_t *mapping;

    if (!value)
        return out_of_memory(reader);
    if (reader->depth == 0) {
        reader->root = value;
        return 0;
    }
    level = &reader->levels[reader->depth - 1];
    if (json_is_array(level->container))
        return json_array_append_new(level->container, value) < 0 ? out_of_memory(reader) : 0;
    mapping = level->container;
    key = ptr_take(&level->key);
    if (json_object_set_new(mapping, key, value) < 0)
        return out_of_memory(reader);
    if (reader->entries) {
        if (entries_add(reader->entries, mapping, key, raw, level->line) < 0)
            return out_of_memory(reader);
        key = NULL; /* the table owns it */
    }
    return 0;
}

/* Whether the next scalar is a key: the reader is in a mapping and has none yet. */
static bool wants_key(const struct reader *reader)
{
    const struct level *level;

    if (reader->depth == 0)
        return false;
    level = &reader->levels[reader->depth - 1];
    return json_is_object(level->container) && !level->key;
}

static int take_key(struct reader *reader, const yaml_event_t *event, const char *text)
{
    struct level *level = &reader->levels[reader->depth - 1];
    char quoted[VALUE_QUOTE_SIZE];

    if (text[0] == '\0')
        return refuse(reader, event, "a key is empty");
    if (json_object_get(level->container, text))
        return error_set(reader->err, -EINVAL, ERROR_BAD_CONFIG, "%s:%lu: duplicate key '%s'",
                         reader->name, line_of(event), value_quote(quoted, text));
    level->line = line_of(event);
    level->key = strdup(text);
    return level->key ? 0 : out_of_memory(reader);
}

static int on_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;

    if (event->data.scalar.anchor)
        return refuse(reader, event, "anchors are not allowed");
    if (event->data.scalar.tag)
        return refuse(reader, event, "tags are not allowed");
    if (strlen(text) != event->data.scalar.length)
        return refuse(reader, event, "a NUL byte is not allowed");
    if (wants_key(reader))
        return take_key(reader, event, text);
    return place(reader,
                 event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_scalar(text)
                                                                     : json_string(text),
                 text);
}

static int on_container(struct reader *reader, const yaml_event_t *event)
{
    bool is_mapping = event->type == YAML_MAPPING_START_EVENT;
    const yaml_char_t *anchor =
        is_mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    const yaml_char_t *tag =
        is_mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    json_t *container;
    int r;

    if (anchor)
        return refuse(reader, event, "anchors are not allowed");
    if (tag)
        return refuse(reader, event, "tags are not allowed");
    if (wants_key(reader))
        return refuse(reader, event, "a key must be plain text");
    if (reader->depth == YAML_DEPTH_MAX)
        return refuse(reader, event, "nested deeper than 64 levels");
    container = is_mapping ? json_object() : json_array();
    r = place(reader, container, NULL);
    if (r < 0)
        return r;
    reader->levels[reader->depth++] = (struct level){.container = container};
    return 0;
}

static int on_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return reader->documents++ ? refuse(reader, event, "only one document is allowed") : 0;
    case YAML_ALIAS_EVENT:
        return refuse(reader, event, "aliases are not allowed");
    case YAML_SCALAR_EVENT:
        return on_scalar(reader, event);
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        return on_container(reader, event);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        reader->depth--;
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

static int syntax_error(struct reader *reader, const yaml_parser_t *parser)
{
    const char *problem = parser->problem ? parser->problem : "not YAML";

    if (parser->error == YAML_MEMORY_ERROR)
        return out_of_memory(reader);
    /* An error of the reader (bad bytes) has an offset, not a line. */
    if (parser->error == YAML_READER_ERROR)
        return error_set(reader->err, -EINVAL, ERROR_BAD_CONFIG, "%s: byte %zu: %s", reader->name,
                         parser->problem_offset, problem);
    return error_set(reader->err, -EINVAL, ERROR_BAD_CONFIG, "%s:%zu: %s", reader->name,
                     parser->problem_mark.line + 1, problem);
}

static int read_events(struct reader *reader, yaml_parser_t *parser)
{
    bool is_done = false;
    int r = 0;

    while (!is_done && r == 0) {
        yaml_event_t event;

        if (!yaml_parser_parse(parser, &event))
            return syntax_error(reader, parser);
        is_done = event.type == YAML_STREAM_END_EVENT;
        r = on_event(reader, &event);
        yaml_event_delete(&event);
    }
    return r;
}

int yaml_parse(const char *text, size_t length, const char *name, json_t **ret,
               struct yaml_entries *entries, struct error *err)
{
    struct reader reader = {.name = name, .entries = entries, .err = err};
    yaml_parser_t parser;
    int r;

    if (length > LIMIT_CONFIG_BYTES)
        return error_set(err, -EFBIG, ERROR_BAD_CONFIG, "%s: larger than %llu KB", name,
                         LIMIT_CONFIG_BYTES / KIB);
    if (!yaml_parser_initialize(&parser))
        return out_of_memory(&reader);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    r = read_events(&reader, &parser);
    yaml_parser_delete(&parser);
    for (size_t i = 0; i < reader.depth; i++)
        free(reader.levels[i].key);
    if (r < 0) {
        json_decref(reader.root);
        return r;
    }
    *ret = reader.root ? reader.root : json_null();
    return 0;
}

int config_yaml_parse(const char *text, size_t length, const char *name, json_t **ret,
                      struct error *err)
{
    return yaml_parse(text, length, name, ret, NULL, err);
}

int config_yaml_parse_lines(const char *text, size_t length, const char *name, json_t **ret,
                            struct yaml_entries **ret_lines, struct error *err)
{
    struct yaml_entries *lines = calloc(1, sizeof(*lines));
    int r;

    if (!lines)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "reading %s: out of memory", name);
    r = yaml_parse(text, length, name, ret, lines, err);
    if (r < 0)
        config_yaml_lines_free(lines);
    else
        *ret_lines = lines;
    return r;
}

unsigned long config_yaml_line(const struct yaml_entries *lines, const json_t *mapping,
                               const char *key)
{
    const struct yaml_entry *entry = yaml_entries_find(lines, mapping, key);

    return entry ? entry->line : 1;
}

void config_yaml_lines_free(struct yaml_entries *lines)
{
    if (!lines)
        return;
    yaml_entries_free(lines);
    free(lines);
}
