/* fuzz_notebook.c - any bytes as a notebook: read and joined without harm, or refused in words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/notebook.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_free) struct buf file = BUF_INIT(MIB);
    CLEANUP(buf_free) struct buf program = BUF_INIT(MIB);
    CLEANUP(strv_freep) char **cells = NULL;
    struct error err = {0};

    if (buf_append(&file, data, size) < 0)
        return 0;
    if (notebook_cells(&file, "n.ipynb", &cells, &err) < 0 ||
        notebook_join(cells, "n.ipynb", &program, &err) < 0) {
        if (!err.code || !err.text[0])
            abort();
    } else if (strlen(buf_text(&program)) != program.length) {
        abort();
    }
    return 0;
}
