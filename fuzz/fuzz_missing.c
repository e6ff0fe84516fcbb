/* fuzz_missing.c - what hostile code says is missing: only names of packages may come of it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "session/missing.h"
#include "template/requirement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *module)
{
    char package[LIMIT_REQUIREMENT + 1], again[LIMIT_REQUIREMENT + 1];
    struct error err = {0};

    if (strlen(module) == 0 || strlen(module) > LIMIT_MODULE || module[0] == '-' ||
        strpbrk(module, "/ \t\r\n'\"@;[]=<>!~"))
        abort();
    if (missing_package(module, NULL, NULL, package, &err) < 0) {
        if (!err.code)
            abort();
        return;
    }
    if (!requirement_normalise(package, strlen(package), again) || strcmp(package, again) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char module[LIMIT_MODULE + 1];

    if (missing_from_value((const char *)data, size, module))
        check(module);
    if (missing_from_stderr((const char *)data, size, module))
        check(module);
    return 0;
}
