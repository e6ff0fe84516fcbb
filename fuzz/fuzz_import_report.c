/* fuzz_import_report.c - a hostile answer of the import check. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "recipe/import_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf message = BUF_INIT(IMPORT_REPORT_MAX);
    struct error err = {0};
    char **modules = NULL;
    int r = import_report_parse((const char *)data, size, &modules, &message, &err);

    if (r >= 0 && (size_t)r != strv_length(modules))
        abort();
    if (r < 0 && (modules || err.num != r || !err.code || !err.text[0]))
        abort();
    if (r > 0 && message.length == 0)
        abort();
    for (size_t i = 0; i < message.length; i++) {
        /* what is printed to a terminal holds no control bytes but the ends of lines */
        if ((unsigned char)message.data[i] < ' ' && message.data[i] != '\n')
            abort();
    }
    strv_free(modules);
    buf_free(&message);
    return 0;
}
