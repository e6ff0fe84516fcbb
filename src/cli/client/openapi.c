/*
 * openapi.c - `bailey openapi`: prints the OpenAPI document of the REST API, from the server's own
 * rows.
 */
#include <jansson.h>
#include <stdint.h>

#include "api/doors.h"
#include "api/front/openapi.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/message.h"
#include "cli/place.h"

/* The server may be of another version: its own document. */
static int of_server(const struct invocation *invocation)
{
    CLEANUP(client_close) struct client client = {0};
    struct error err = {0};
    json_t *document = NULL;

    if (client_open(&client, NULL, invocation->env, CLIENT_LOOKS, &err) < 0 ||
        client_call(&client, "GET", "/openapi.json", NULL, &document, &err) < 0)
        return client_fail(false, &err);
    return print_json(document);
}

int openapi_run(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_REPLY_JSON);
    struct door_list doors;

    if (place_url(invocation->env))
        return of_server(invocation);
    doors_list(&doors);
    if (openapi_write(&doors, &text) < 0) {
        message_print("out of memory printing the document");
        return STATUS_BAD_INPUT;
    }
    if (text.length > 0 && text.data[text.length - 1] != '\n')
        buf_append_text(&text, "\n");
    return print_text(&text);
}
