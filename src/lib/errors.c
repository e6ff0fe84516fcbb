/* errors.c - errors as the caller gets them: of the library, of a server's answer, of a result. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "lib/lib_private.h"

_Static_assert(sizeof(struct bailey_error) == 1280,
               "callers allocate it: its size is a part of the ABI");

/* What a code or else a status is as an errno. */
static const struct {
    const char *code;
    int num;
} numbers[] = {
    {ERROR_CANCELLED, -ECANCELED},
    {ERROR_REFUSED, -EPERM},
    {ERROR_BAD_INPUT, -EINVAL},
    {ERROR_BAD_CONFIG, -EINVAL},
    {ERROR_UNKNOWN_PARAMETER, -EINVAL},
    {ERROR_NOT_FOUND, -ENOENT},
    {ERROR_COMMAND_NOT_FOUND, -ENOENT},
    {ERROR_NOT_EXECUTABLE, -EACCES},
    {ERROR_NO_INTERPRETER, -ENOENT},
    {ERROR_TOO_LARGE, -EFBIG},
    {ERROR_NO_DAEMON, -ECONNREFUSED},
    {ERROR_BOX_LOST, -EPIPE},
    {ERROR_PATH_REFUSED, -EACCES},
    {ERROR_PATH_IS_FOLDER, -EISDIR},
    {ERROR_PATH_NOT_FOLDER, -ENOTDIR},
    {ERROR_PATH_EXISTS, -EEXIST},
    {ERROR_READ_ONLY, -EROFS},
    {ERROR_DISK_FULL, -ENOSPC},
    {ERROR_BUSY, -EBUSY},
    {ERROR_UNAUTHORIZED, -EACCES},
    {ERROR_FORBIDDEN, -EPERM},
    {ERROR_QUOTA, -EDQUOT},
    {ERROR_NAME_TAKEN, -EEXIST},
    {ERROR_TEMPLATE_NOT_FOUND, -ENOENT},
};
static const struct {
    unsigned status;
    int num;
} statuses[] = {
    {400, -EINVAL}, {401, -EACCES}, {403, -EPERM},  {404, -ENOENT}, {409, -EBUSY},  {410, -ENOENT},
    {413, -EFBIG},  {422, -EINVAL}, {429, -EAGAIN}, {503, -EAGAIN}, {507, -ENOSPC},
};

static int number_of(const char *code, unsigned status)
{
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        if (str_equal(numbers[i].code, code))
            return numbers[i].num;
    }
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
        if (statuses[i].status == status)
            return statuses[i].num;
    }
    return -EIO;
}

int errors_tell(struct bailey_error *to, const struct error *from)
{
    if (!to)
        return from->num;
    *to = (struct bailey_error){.number = from->num, .retry_s = from->retry_s};
    str_copy(to->code, sizeof(to->code), from->code ? from->code : ERROR_ENGINE);
    str_copy(to->stage, sizeof(to->stage), from->stage ? from->stage : "");
    str_copy(to->text, sizeof(to->text), from->text);
    return from->num;
}

int errors_of_connection(struct bailey_error *to, const struct error *from, const char *server)
{
    struct error err = {0};

    switch (from->num) {
    case -ECONNREFUSED:
    case -ENOENT:
        error_set(&err, from->num, ERROR_NO_DAEMON,
                  "no server listens on '%.300s'; start one there, or correct the address", server);
        break;
    case -EHOSTUNREACH:
        error_set(&err, from->num, ERROR_ENGINE, "there is no host as in '%.300s' (%.300s)", server,
                  from->text);
        break;
    case -ECONNRESET:
        error_set(
            &err, from->num, ERROR_ENGINE,
            "the connection to '%.300s' was lost before its answer was complete (%.300s); the "
            "server may have ended, or have been started again",
            server, from->text);
        break;
    default:
        error_set(&err, from->num, ERROR_ENGINE, "'%.300s' cannot be used: %.300s", server,
                  from->text);
    }
    return errors_tell(to, &err);
}

int errors_of_null(const char *what, struct bailey_error *told)
{
    struct error err = {0};

    error_set(&err, -EINVAL, ERROR_BAD_INPUT,
              "%s is NULL; look at what the function that makes it returned", what);
    return errors_tell(told, &err);
}

static void copy(char *to, size_t size, json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    if (text)
        str_format(to, size, "%.*s", (int)size - 1, text);
}

/* Whole ones, rounded up: 0 would say that it is not known. */
static unsigned seconds_of(double seconds)
{
    return seconds < 86400 * 365 ? (unsigned)seconds + (seconds > (unsigned)seconds) : 86400 * 365;
}

void errors_of_json(struct bailey_error *to, unsigned status, unsigned retry_s, json_t *json)
{
    json_t *retry = json_object_get(json, "retry_after_s");

    *to = (struct bailey_error){.status = status, .retry_s = retry_s};
    copy(to->code, sizeof(to->code), json, "code");
    copy(to->stage, sizeof(to->stage), json, "stage");
    copy(to->text, sizeof(to->text), json, "message");
    if (json_is_number(retry) && json_number_value(retry) > 0)
        to->retry_s = seconds_of(json_number_value(retry));
    if (!to->code[0])
        str_copy(to->code, sizeof(to->code), ERROR_ENGINE);
    if (!to->text[0])
        str_format(to->text, sizeof(to->text),
                   "the server answered %u and no reason; is this the address of a Bailey server?",
                   status);
    to->number = number_of(to->code, status);
}
