/*
 * target.h - what a request asks for, taken apart: path segments and query arguments, decoded.
 *
 * Pure; the text is hostile. Nothing is normalised: "//", "." and ".." are segments like others (no
 * pattern matches them). A value never holds a NUL byte; "%2F" is a slash in a value.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_TARGET_H
#define BAILEY_HTTP_TARGET_H

#include <stddef.h>

#include "base/buf.h"
#include "base/limits.h"

struct http_pair {
    const char *name;
    const char *value; /* "" when there is none */
};

struct http_target {
    char *memory;      /* what all the strings point into */
    const char *path;  /* as received, without the query */
    const char *query; /* likewise, without the question mark; NULL: there is none */
    /* Decoded; each one begins after the NUL of the previous one. */
    char *segments[LIMIT_HTTP_SEGMENTS];
    size_t segment_count;
    struct http_pair arguments[LIMIT_HTTP_ARGUMENTS];
    size_t argument_count;
};

/* 0; -EINVAL: no path, bad escape, NUL; -ENAMETOOLONG: over a ceiling; -ENOMEM. */
int target_parse(struct http_target *target, const char *text);
void target_free(struct http_target *target);

#endif
