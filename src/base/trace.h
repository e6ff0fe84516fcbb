/*
 * trace.h - identifies a request: its own id (X-Request-Id) and the W3C trace that it is a part of
 * (traceparent). Both come from outside and are checked strictly. Pure.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_TRACE_H
#define BAILEY_BASE_TRACE_H

#include <stdbool.h>

#define REQUEST_ID_MAX 65 /* with its NUL */
#define TRACE_ID_MAX 33
#define SPAN_ID_MAX 17

/* [A-Za-z0-9._-], 1 to 64 of them: valid in a header, a log and a file name. */
bool request_id_is_valid(const char *text);

struct trace {
    char id[TRACE_ID_MAX];    /* 32 hexadecimal digits; empty: none */
    char parent[SPAN_ID_MAX]; /* 16: the caller's span */
    bool is_sampled;
};

/*
 * A traceparent of version 00, or of a later one that begins like it (W3C Trace Context, 3.2).
 * 0, or -EINVAL: it is to be taken for none, and *ret is empty.
 */
int trace_parse(const char *text, struct trace *ret);

#endif
