/* plain.c - HTTP/1.0 with libc alone; see plain.h. */
#include "http/plain.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define EXECUTION "bailey-execution:"

int plain_connect(const char *path, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (fd < 0)
        return error_errno(err, "making a socket");
    if (!str_copy(address.sun_path, sizeof(address.sun_path), path))
        return error_set(err, -ENAMETOOLONG, ERROR_NO_DAEMON, "the socket's path is too long");
    /* EAGAIN: its queue is full, which is treated as if no process listened. */
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return error_set(err, -errno, ERROR_NO_DAEMON, "no answer on %.200s: %s", path,
                         strerror(errno));
    *ret_fd = fd_take(&fd);
    return 0;
}

int plain_head_write(struct buf *text, const char *method, const char *path, const char *accept,
                     const char *more, size_t body_length)
{
    int r = buf_printf(text, "%s %s HTTP/1.0\r\n", method, path);

    if (r == 0 && accept)
        r = buf_printf(text, "Accept: %s\r\n", accept);
    if (r == 0 && more && more[0])
        r = buf_printf(text, "%s\r\n", more);
    if (r == 0 && body_length > 0)
        r = buf_printf(text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                       body_length);
    return r < 0 ? r : buf_append_text(text, "\r\n");
}

/* "HTTP/1.1 200 OK" */
static int read_status(const char *line, size_t length, unsigned *ret)
{
    static const char start[] = "HTTP/1.";
    unsigned status = 0;

    if (length < sizeof(start) + 4 || memcmp(line, start, sizeof(start) - 1) != 0 ||
        line[sizeof(start)] != ' ')
        return -EPROTO;
    line += sizeof(start) + 1;
    for (int i = 0; i < 3; i++) {
        if (!isdigit((unsigned char)line[i]))
            return -EPROTO;
        status = status * 10 + (unsigned)(line[i] - '0');
    }
    *ret = status;
    return 0;
}

static void read_field(const char *line, size_t length, struct plain_head *head)
{
    size_t name = sizeof(EXECUTION) - 1;

    if (length <= name || strncasecmp(line, EXECUTION, name) != 0)
        return;
    while (name < length && line[name] == ' ')
        name++;
    if (length - name < sizeof(head->execution) && !memchr(line + name, '\0', length - name))
        str_format(head->execution, sizeof(head->execution), "%.*s", (int)(length - name),
                   line + name);
}

ssize_t plain_head_read(const char *data, size_t length, struct plain_head *ret)
{
    const char *end = memmem(data, length, "\r\n\r\n", 4), *at = data;
    struct plain_head head = {0};

    if (!end)
        return length > LIMIT_HTTP_HEAD ? -EFBIG : 0;
    for (const char *line = data; line < end; line = at + 2) {
        size_t count;

        at = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        count = (size_t)(at - line);
        if (line != data)
            read_field(line, count, &head);
        else if (read_status(line, count, &head.status) < 0)
            return -EPROTO;
    }
    if (head.status == 0)
        return -EPROTO;
    *ret = head;
    return end + 4 - data;
}
