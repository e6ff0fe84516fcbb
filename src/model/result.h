/*
 * result.h - the one result of docs/result.md, for every runtime and every ending.
 *
 * Owns its strings; result_init() before use, result_free() after (twice is fine). Each
 * fact is set by the code that knows it; nothing here guesses. No I/O.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_MODEL_RESULT_H
#define BAILEY_MODEL_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "base/isolation.h"
#include "base/trace.h"
#include "model/spec.h"

typedef struct json_t json_t;

/*
 * One captured stream: bytes up to the limit, and the truth about the rest. Of a stream that was
 * cut, stdout has the beginning; stderr (keeps_end) one half from the beginning and one from the
 * end, where a traceback says what went wrong.
 */
struct capture {
    struct buf kept;  /* byte-exact prefix, at most the limit */
    struct buf tail;  /* keeps_end and cut: its last end_bytes bytes are the stream's end */
    size_t end_bytes; /* of `tail`; what is before them is dropped now and then */
    bool keeps_end;
    uint64_t total_bytes;    /* all that was written */
    bool is_truncated;       /* total_bytes > limit, or memory ran out: `kept` does not grow */
    uint64_t replaced_bytes; /* invalid ones replaced before they came here: a parsed result */
};

/* A file from /tmp/output. */
struct output_file {
    char *name; /* relative to /tmp/output */
    char *path; /* absolute, on the host; NULL: it stayed in the box */
    uint64_t bytes;
    char *skipped; /* why it was not fetched: "symlink", "fifo", ...; NULL: it was */
};

/* Who measured it: meta.usage.by. */
enum usage_by {
    USAGE_BY_NONE,     /* null, as the numbers: unknown */
    USAGE_BY_WARDEN,   /* "warden": inside the box, from wait4(2) */
    USAGE_BY_PROVIDER, /* the runtime's name: its statistics, of some moment before the end */
    USAGE_BY_ENGINE,   /* "engine": the kernel's numbers, read outside of the box */
    _USAGE_BY_MAX,
};

struct usage {
    uint64_t cpu_us;
    uint64_t max_rss_bytes; /* 0: not known, no program has none */
    enum usage_by by;
};
/* `runtime`: the word of USAGE_BY_PROVIDER. NULL: unknown. */
const char *usage_by_name(enum usage_by by, const char *runtime);

struct result {
    const char *runtime; /* "local"; static */
    const char *warm;    /* "pool", "zygote", "cold"; static; NULL: unknown */
    const char
        *fallback; /* why another runtime than the configured one was used; NULL: it was not */
    const char *fallback_from; /* the configured runtime; static; NULL without `fallback` */
    char execution_id[ID_MAX];
    char session_id[ID_MAX];     /* empty: null */
    char trace_id[TRACE_ID_MAX]; /* of the request (traceparent); empty: there was none */
    struct capture out, err;
    int exit_code;
    int signal;           /* 0: null */
    uint64_t duration_ns; /* of the program, not of the box */
    bool timed_out, oom_killed, disk_full;
    char **blocked_imports; /* strv or NULL */
    struct output_file *files;
    size_t file_count;
    uint64_t total_output_files;
    struct usage usage;
    struct limits limits;
    enum limit_by memory_by, pids_by, cpu_by, disk_by;
    uint32_t layers;  /* that held: ISOLATION_LAYER_BIT()s */
    uint32_t missing; /* that were wanted and are not available */
    json_t
        *install; /* object: members of meta about a missing module (docs/templates.md); or NULL */
    struct buf note;    /* lines of the engine, after stderr's text and outside its limit */
    struct error error; /* .code set: the run could not start or was ended by the engine */
    char **words;       /* strv: owns `fallback`, and the other static words of a
                           parsed result */
};

#define RESULT_TRUNCATED "... (output truncated)" /* the line where a stream was cut */
#define RESULT_NOTE_MAX 4096 /* bytes of all notes of a result; what does not fit is cut */

void result_init(struct result *result, const struct limits *limits);
void result_free(struct result *result);

/* Another runtime than `from` (static) made the box; `why` is copied. Without memory for it the run
 * continues. */
void result_set_fallback(struct result *result, const char *from, const char *why);

/* Appends to a captured stream: keeps up to the limit, counts everything. Never fails the run. */
void capture_add(struct capture *capture, const void *data, size_t length, uint64_t limit);

/*
 * Adds a line of the engine ("timed out after 5 s") that is on its own line after stderr's text in
 * JSON and is not counted as the program's. Never fails the run.
 */
void result_note(struct result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The text as it appears in JSON: invalid UTF-8 replaced by U+FFFD (counted in *ret_invalid_bytes),
 * never cut inside a sequence, "... (output truncated)" behind the beginning of a truncated one.
 * `text` is cleared first. The count covers the kept bytes only.
 */
int capture_text(const struct capture *capture, struct buf *text, uint64_t *ret_invalid_bytes);

/* The end of a stream that was cut, as bytes; empty: nothing is kept of it. */
const char *capture_end(const struct capture *capture, size_t *ret_length);
void capture_free(struct capture *capture);

/*
 * What JSON has as stdout, and as stderr with the engine's lines behind it: the notes, then why the
 * run did not start or was ended (result.error). `text` is cleared.
 */
int result_stdout(const struct result *result, struct buf *text);
int result_stderr(const struct result *result, struct buf *text);

/* Adds a file to the list; copies the strings. */
int result_add_file(struct result *result, const char *name, const char *path, uint64_t bytes,
                    const char *skipped);

/* New reference, or NULL when memory is out. As docs/result.md says. */
json_t *result_to_json(const struct result *result);

/* The other way, strict: unknown members are ignored, wrong types are errors. `result` is inited.
 */
int result_from_json(json_t *json, struct result *result, struct error *err);

/* The exit status of the command line: docs/cli.md. */
int result_exit_status(const struct result *result);

#endif
