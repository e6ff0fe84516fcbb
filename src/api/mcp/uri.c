/*
 * uri.c - sandbox://SESSION/PATH: a file of a session as a resource.
 *
 * PATH is percent-decoded once. A path that begins with tmp/ or workspace/ is an absolute path in
 * the box, .log/3/stdout is the output of the third execution; every other path is the name of an
 * output, below /tmp/output. Links that this server writes always have the absolute form. The box's
 * own kernel resolves the path; a path that is refused here is never sent to the box.
 */
#include <errno.h>
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/cleanup.h"
#include "base/str.h"

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* Decodes up to `length` bytes of text; -EINVAL for an incomplete escape or a NUL. */
static int decode(const char *text, size_t length, char *to, size_t size)
{
    size_t have = 0;

    for (size_t at = 0; at < length; at++) {
        int byte = (unsigned char)text[at];

        if (text[at] == '%') {
            int high = at + 1 < length ? hex_digit(text[at + 1]) : -1;
            int low = at + 2 < length ? hex_digit(text[at + 2]) : -1;

            if (high < 0 || low < 0)
                return -EINVAL;
            byte = high * 16 + low;
            at += 2;
        }
        if (byte == 0)
            return -EINVAL;
        if (have + 1 >= size)
            return -ENAMETOOLONG;
        to[have++] = (char)byte;
    }
    to[have] = '\0';
    return 0;
}

/* Whether a component is "..", which no valid URI has. */
static bool has_dots(const char *path)
{
    while (*path) {
        size_t length = strcspn(path, "/");

        if (length == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += length + (path[length] == '/');
    }
    return false;
}

static bool is_below(const char *path, const char *folder)
{
    return str_starts(path, folder) &&
           (path[strlen(folder)] == '/' || path[strlen(folder)] == '\0');
}

/* A session's id or name: without characters of a path or a query. */
static bool is_session(const char *session)
{
    return session[0] && session[0] != '.' && !strpbrk(session, "/?#%\\\"\n\r");
}

int mcp_uri_parse(const char *uri, char session[MCP_SESSION_SIZE], char path[LIMIT_PATH_BYTES + 1])
{
    char rest[LIMIT_PATH_BYTES + 1];
    const char *begin = uri + strlen(MCP_SCHEME), *slash, *name = rest;
    int r;

    if (!str_starts(uri, MCP_SCHEME))
        return -EINVAL;
    slash = begin + strcspn(begin, "/");
    r = decode(begin, (size_t)(slash - begin), session, MCP_SESSION_SIZE);
    if (r < 0 || !is_session(session))
        return -EINVAL;
    r = decode(slash, strlen(slash), rest, sizeof(rest));
    if (r < 0)
        return r;
    name += strspn(name, "/");
    if (has_dots(name))
        return -EINVAL;
    if (is_below(name, "tmp") || is_below(name, "workspace") || is_below(name, ".log"))
        return str_format(path, LIMIT_PATH_BYTES + 1, "/%s", name);
    return str_format(path, LIMIT_PATH_BYTES + 1, MCP_OUTPUT_FOLDER "%s", name);
}

int mcp_uri_write(struct buf *uri, const char *session, const char *path)
{
    int failed = buf_printf(uri, MCP_SCHEME "%s", session);

    for (; *path && failed == 0; path++) {
        unsigned char byte = (unsigned char)*path;

        if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
            (byte >= '0' && byte <= '9') || strchr("-._~/", byte))
            failed = buf_append(uri, path, 1);
        else
            failed = buf_printf(uri, "%%%02X", byte);
    }
    return failed;
}

const char *mcp_mime(const char *name)
{
    static const struct {
        const char *ending, *mime;
    } rows[] = {
        {".png", "image/png"},         {".jpg", "image/jpeg"},        {".jpeg", "image/jpeg"},
        {".svg", "image/svg+xml"},     {".gif", "image/gif"},         {".webp", "image/webp"},
        {".csv", "text/csv"},          {".json", "application/json"}, {".html", "text/html"},
        {".md", "text/markdown"},      {".pdf", "application/pdf"},   {".py", "text/x-python"},
        {".txt", "text/plain"},        {".log", "text/plain"},        {".xml", "application/xml"},
        {".yaml", "application/yaml"}, {".zip", "application/zip"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strlen(name) > strlen(rows[i].ending) &&
            strcasecmp(name + strlen(name) - strlen(rows[i].ending), rows[i].ending) == 0)
            return rows[i].mime;
    return "application/octet-stream";
}
