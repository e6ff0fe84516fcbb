/*
 * fuzz_execute.c - any bytes as the body of POST /execute: refused with a text, or understood
 * within its limits, with names of files that stay in their folder.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/execute/execute.h"
#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct execute_order order = {0};
    struct error err = {0};

    if (execute_order_read((const char *)data, size, &order, &err) < 0) {
        check(err.text[0] && err.code);
    } else {
        check(order.code_length > 0 && order.code_length <= LIMIT_CODE_BYTES && order.language);
        check(order.timeout_ms > 0 && order.timeout_ms <= LIMIT_TIMEOUT_MS);
        for (size_t i = 0; i < order.file_count; i++) {
            check(order.files[i].name[0] && !strchr(order.files[i].name, '/'));
            check(strcmp(order.files[i].name, "..") != 0 && strcmp(order.files[i].name, ".") != 0);
            check(order.files[i].length <= size);
        }
    }
    execute_order_free(&order);
    return 0;
}
