/* remote.c - the /files calls of the API; see remote.h. */
#include "cli/client/remote.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

int remote_path(struct buf *to, const char *session, const char *tail, const char *path,
                struct error *err)
{
    int result = client_session_path(to, session, "/files", err);

    if (result == 0 && buf_append_text(to, tail) < 0)
        result = error_set(err, -EFBIG, ERROR_BAD_INPUT, "an argument is too long");
    return result < 0 ? result : client_query(to, "path", path, err);
}

int remote_stat(struct client *client, const char *session, const char *path, json_t **ret,
                struct error *err)
{
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    int result = remote_path(&address, session, "/stat", path, err);

    *ret = NULL;
    if (result == 0)
        result = client_call(client, "GET", buf_text(&address), NULL, ret, err);
    return result < 0 && err->code == ERROR_PATH_NOT_FOUND ? 0 : result;
}

int remote_list(struct client *client, const char *session, const char *path, unsigned depth,
                json_t **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    char number[16];
    int result = remote_path(&address, session, "/list", path, err);

    str_format(number, sizeof(number), "%u", depth);
    if (result == 0)
        result = client_query(&address, "depth", number, err);
    return result < 0 ? result : client_call(client, "GET", buf_text(&address), NULL, ret, err);
}

int remote_mkdir(struct client *client, const char *session, const char *path, struct error *err)
{
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    json_t *name = json_string(path);
    int result =
        name ? client_session_path(&address, session, "/files/mkdir", err)
             : error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'%.100s' is not UTF-8 text and cannot be made in a session", path);

    if (result < 0) {
        json_decref(name);
        return result;
    }
    return client_call(client, "POST", buf_text(&address), json_pack("{s:o}", "path", name), NULL,
                       err);
}
