/* fuzz_dpkg.c - any bytes as a status file of dpkg and as what apt-cache says: no name of a closure
 * could be an option or leave a folder. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "image/dpkg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const wanted[] = {"bash", "python3 | python", NULL};
    static const char *const without[] = {"debconf", NULL};
    struct dpkg dpkg = {0};
    char **names = NULL, **unknown = NULL;

    if (dpkg_read(&dpkg, (const char *)data, size, true, NULL) == 0 &&
        dpkg_read(&dpkg, (const char *)data, size, false, NULL) == 0 &&
        dpkg_closure(&dpkg, &(struct dpkg_need){wanted, without}, &names, &unknown, NULL) == 0) {
        for (char **name = names; *name; name++)
            if ((*name)[0] == '-' || (*name)[0] == '.' || strchr(*name, '/'))
                abort();
    }
    strv_free(names);
    strv_free(unknown);
    dpkg_free(&dpkg);
    return 0;
}
