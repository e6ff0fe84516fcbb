/*
 * prompt.h - the system prompt that teaches a model to use the tools: `bailey prompt`. Pure.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_PROMPT_H
#define BAILEY_TOOL_PROMPT_H

#include <stdbool.h>

#include "base/buf.h"
#include "config/config.h"

#define PROMPT_MAX (64 * 1024)

struct prompt_spec {
    const struct config *config; /* its limits are named */
    bool has_data;               /* the template has Polars, scikit-learn and Matplotlib */
    bool is_mcp;                 /* replies are texts, without "hint" and "session_id" */
};

/* Appends the text; 0, -EFBIG, -ENOMEM. */
int prompt_write(const struct prompt_spec *spec, struct buf *text);

#endif
