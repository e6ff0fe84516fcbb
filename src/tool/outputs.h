/*
 * outputs.h - what session_collect() fetched, told in a result and as JSON. Called by tool/, api/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_OUTPUTS_H
#define BAILEY_TOOL_OUTPUTS_H

#include "session/session.h"

/* What a collection gave: in `result`, with a note when it failed (err->num < 0). */
void outputs_to_result(struct session *session, const struct session_output *changed, size_t count,
                       uint64_t total, const struct error *err, struct result *result);

/* An array: those that were saved, then those that were not, LIMIT_TOOL_OUTPUTS of each at most. */
json_t *outputs_to_json(struct session *session, const struct session_output *changed,
                        size_t count);

#endif
