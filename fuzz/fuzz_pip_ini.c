/* fuzz_pip_ini.c - any bytes as a pip.conf: read without harm, values without blanks around them.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/pip_ini.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pip_values values = {0};

    if (pip_ini_parse((const char *)data, size, &values) == 0) {
        for (int i = 0; i < _PIP_OPTION_MAX; i++) {
            const char *value = pip_value(&values, i);

            if (value && *value && isspace((unsigned char)value[strlen(value) - 1]))
                abort();
        }
    }
    pip_values_free(&values);
    return 0;
}
