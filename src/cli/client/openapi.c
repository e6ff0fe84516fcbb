/*
 * openapi.c - `bailey openapi`: prints the OpenAPI document of the REST API, from the server's own
 * rows.
 */
#include <stdint.h>

#include "api/doors.h"
#include "api/front/openapi.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/client/commands.h"
#include "cli/message.h"

int openapi_run(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_REPLY_JSON);
    struct door_list doors;

    (void)invocation;
    doors_list(&doors);
    if (openapi_write(&doors, &text) < 0) {
        message_print("out of memory printing the document");
        return STATUS_BAD_INPUT;
    }
    if (text.length > 0 && text.data[text.length - 1] != '\n')
        buf_append_text(&text, "\n");
    return print_text(&text);
}
