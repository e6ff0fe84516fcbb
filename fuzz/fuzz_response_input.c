/* fuzz_response_input.c - `input` of POST /v1/responses: items into messages, or an error that
 * names the item. */
#include <stdint.h>
#include <stdlib.h>

#include "api/responses/responses.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each result of a tool follows a message that has its call or came before it. */
static void check(json_t *messages)
{
    json_t *message;
    size_t i;

    json_array_foreach(messages, i, message)
    {
        if (!json_is_string(json_object_get(message, "role")))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *input = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    struct order order = {0};
    json_t *items = NULL, *messages = json_array();
    struct error err = {0};
    int r = input_items(&order, input, &items, &err);

    if (r == 0)
        r = input_add(&order, messages, items, &err);
    if (r < 0 ? !order.param || !err.text[0] : false)
        abort();
    check(messages);
    json_decref(items);
    json_decref(messages);
    json_decref(input);
    return 0;
}
