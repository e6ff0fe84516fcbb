/* settings.c - what a container that is its own only box cannot do; see settings.h. */
#include "runtime/container/settings.h"

#include <errno.h>

int container_settings_no_template(const char *name, struct error *err)
{
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                     "template '%.64s': this container gives no namespaces, so a session has what "
                     "the container has; install the packages into it, or start it so that 'bailey "
                     "doctor' finds namespaces",
                     name);
}
