/*
 * simple_output.h - what a cell gave, as one thing: an error, a picture, or text. For the doors
 * that answer people.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_SIMPLE_OUTPUT_H
#define BAILEY_API_SIMPLE_OUTPUT_H

#include <jansson.h>

#define SIMPLE_OUTPUT_SCHEMA                                                                 \
    "{\"type\":\"object\",\"properties\":{\"type\":{\"type\":\"string\",\"enum\":[\"text\"," \
    "\"image/png\",\"error\"]},\"content\":{\"type\":\"string\"}},\"required\":[\"type\","   \
    "\"content\"]}"

/*
 * {"type","content"} of an execution_reply(): first an error (its traceback, or why the code did
 * not end by itself), else the first PNG (base64), else what it printed, else the text of its
 * value. New reference, or NULL without memory. Pure.
 */
json_t *simple_output(const json_t *reply);

#endif
