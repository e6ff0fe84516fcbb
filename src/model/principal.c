/* principal.c - names of scopes and tenants; see principal.h. */
#include "model/principal.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

static const char *const names[_SCOPE_MAX] = {
    [SCOPE_RUN] = "run",         [SCOPE_SESSIONS] = "sessions", [SCOPE_FILES] = "files",
    [SCOPE_METRICS] = "metrics", [SCOPE_ADMIN] = "admin",       [SCOPE_OPERATOR] = "operator",
};

const struct principal principal_local = {
    .tenant = TENANT_LOCAL, .scopes = SCOPE_ALL, .is_local = true};

const char *scope_name(enum scope scope)
{
    return scope < _SCOPE_MAX ? names[scope] : "unknown";
}

int scope_from_name(const char *name, enum scope *ret)
{
    for (int i = 0; i < _SCOPE_MAX; i++) {
        if (str_equal(names[i], name)) {
            *ret = (enum scope)i;
            return 0;
        }
    }
    return -EINVAL;
}

bool principal_may(const struct principal *who, enum scope scope)
{
    uint32_t good = SCOPE_BIT(scope);

    if (scope == SCOPE_ADMIN)
        good |= SCOPE_BIT(SCOPE_OPERATOR);
    return (who->scopes & good) != 0;
}

int tenant_check(const char *name)
{
    size_t length = name ? strlen(name) : 0;

    if (length == 0 || length >= TENANT_MAX || name[0] == '-')
        return -EINVAL;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length ? 0 : -EINVAL;
}
