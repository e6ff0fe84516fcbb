/*
 * prompt.h - the system prompt that teaches a model to use the tools: `bailey prompt`. Pure.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_PROMPT_H
#define BAILEY_TOOL_PROMPT_H

#include "base/buf.h"
#include "config/config.h"

#define PROMPT_MAX (64 * 1024)

/* Appends the text with the limits that the configuration has; 0, -EFBIG, -ENOMEM. */
int prompt_write(const struct config *config, struct buf *text);

#endif
