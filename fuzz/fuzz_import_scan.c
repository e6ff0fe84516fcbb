/* fuzz_import_scan.c - a hostile source, looked at for its imports. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "session/import_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bounds {
    const char *begin, *end;
};

static void check(void *ctx, const char *module, size_t length)
{
    const struct bounds *bounds = ctx;

    if (length == 0 || module < bounds->begin || length > (size_t)(bounds->end - module) ||
        module[0] == '.' || memchr(module, '\n', length))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const core[] = {"numpy", "matplotlib.pyplot", NULL};
    static const char *const all[] = {"sklearn", "sklearn.cluster", NULL};
    static const char *const *const lists[] = {core, all};
    struct bounds bounds = {(const char *)data, (const char *)data + size};

    import_scan((const char *)data, size, check, &bounds);
    if (import_scan_tier((const char *)data, size, lists, 3) > 2)
        abort();
    return 0;
}
