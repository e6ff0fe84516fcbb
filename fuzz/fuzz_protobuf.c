/*
 * fuzz_protobuf.c - any bytes as a binary message of each method of Scalebox's clients. What is
 * read can be written, and what was written is read again as the same message.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "api/protobuf.h"
#include "api/scalebox/scalebox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

/* An enumeration's number that has no name is not written: it may differ then. */
static void try_message(const struct protobuf_message *message, const uint8_t *data, size_t size)
{
    struct buf first = BUF_INIT(1 << 24), second = BUF_INIT(1 << 24);
    struct error err = {0};
    json_t *json = protobuf_read(message, data, size, &err), *again;

    if (!json) {
        check(err.code != NULL);
        return;
    }
    check(protobuf_write(message, json, &first) == 0);
    again = protobuf_read(message, buf_text(&first), first.length, &err);
    check(again != NULL);
    check(protobuf_write(message, again, &second) == 0);
    check(first.length == second.length);
    json_decref(again);
    json_decref(json);
    buf_free(&first);
    buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (const struct e2b_method *method = scalebox_methods; method->path; method++) {
        try_message(method->request, data, size);
        try_message(method->reply, data, size);
    }
    return 0;
}
