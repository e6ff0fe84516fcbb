/* hello.c - the name in a TLS ClientHello; see hello.h. RFC 8446 4.1.2, RFC 6066 3. */
#include "egress/hello.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"

#define RECORD_HANDSHAKE 22
#define HANDSHAKE_CLIENT_HELLO 1
#define RECORD_HEAD 5
#define RECORD_MAX 16384
#define EXTENSION_SERVER_NAME 0
#define EXTENSION_ENCRYPTED_HELLO 0xfe0d

/* What is left to read; one that went over its end is `is_bad` and stays so. */
struct reader {
    const uint8_t *data;
    size_t left;
    bool is_bad;
};

static size_t take_number(struct reader *reader, size_t bytes)
{
    size_t value = 0;

    if (reader->is_bad || bytes > reader->left) {
        reader->is_bad = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | reader->data[i];
    reader->data += bytes;
    reader->left -= bytes;
    return value;
}

/* A part that follows its length, which has this many bytes. */
static struct reader take_part(struct reader *reader, size_t bytes)
{
    size_t length = take_number(reader, bytes);
    struct reader part = {.data = reader->data, .left = length};

    if (reader->is_bad || length > reader->left) {
        reader->is_bad = true;
        return (struct reader){.is_bad = true};
    }
    reader->data += length;
    reader->left -= length;
    return part;
}

/* The handshake message out of its records; -EAGAIN, -EPROTO, or its length. */
static long unwrap(const uint8_t *data, size_t length, uint8_t *ret, size_t size)
{
    size_t have = 0, wanted = 4;

    while (have < wanted) {
        size_t record;

        /* What is there has to be right already: nothing is waited for in vain. */
        if ((length > 0 && data[0] != RECORD_HANDSHAKE) || (length > 1 && data[1] != 3))
            return -EPROTO;
        if (length < RECORD_HEAD)
            return -EAGAIN;
        record = (size_t)(data[3] << 8 | data[4]);
        if (record == 0 || record > RECORD_MAX || record > size - have)
            return -EPROTO;
        if (length - RECORD_HEAD < record)
            return -EAGAIN;
        memcpy(ret + have, data + RECORD_HEAD, record);
        have += record;
        data += RECORD_HEAD + record;
        length -= RECORD_HEAD + record;
        if (ret[0] != HANDSHAKE_CLIENT_HELLO)
            return -EPROTO;
        if (have >= 4)
            wanted = 4 + ((size_t)ret[1] << 16 | (size_t)ret[2] << 8 | ret[3]);
        if (wanted > size)
            return -EPROTO;
    }
    return (long)wanted;
}

/* The one host name of the list; anything else in it is bad. */
static struct reader take_name(struct reader *extension)
{
    struct reader list = take_part(extension, 2);

    if (take_number(&list, 1) != 0)
        list.is_bad = true;
    struct reader name = take_part(&list, 2);

    if (list.is_bad || list.left > 0 || extension->left > 0)
        name.is_bad = true;
    return name;
}

static const char *check_name(struct reader *extension, const struct host *host)
{
    struct reader name = take_name(extension);
    struct host said;

    if (name.is_bad || host_parse((const char *)name.data, name.left, &said) < 0 ||
        !host_equal(&said, host))
        return "wrong_sni";
    return NULL;
}

/* NULL: it is right. */
static const char *check_extensions(struct reader *list, const struct host *host)
{
    bool has_name = false;

    while (list->left > 0 && !list->is_bad) {
        size_t type = take_number(list, 2);
        struct reader extension = take_part(list, 2);

        if (type == EXTENSION_ENCRYPTED_HELLO)
            return "hidden_sni";
        if (type != EXTENSION_SERVER_NAME || list->is_bad)
            continue;
        if (has_name || check_name(&extension, host))
            return "wrong_sni";
        has_name = true;
    }
    if (list->is_bad)
        return "not_tls";
    return has_name || host->is_address ? NULL : "no_sni";
}

static const char *check_message(const uint8_t *message, size_t length, const struct host *host)
{
    struct reader reader = {.data = message + 4, .left = length - 4};
    struct reader extensions;

    take_number(&reader, 2); /* version */
    for (int i = 0; i < 4; i++)
        take_number(&reader, 8); /* random */
    take_part(&reader, 1);       /* session */
    take_part(&reader, 2);       /* ciphers */
    take_part(&reader, 1);       /* compression */
    if (!reader.is_bad && reader.left == 0)
        return host->is_address ? NULL : "no_sni";
    extensions = take_part(&reader, 2);
    if (reader.is_bad || reader.left > 0)
        return "not_tls";
    return check_extensions(&extensions, host);
}

int hello_check(const void *data, size_t length, const struct host *host, const char **ret_reason)
{
    uint8_t message[LIMIT_EGRESS_HEAD];
    long wanted = unwrap(data, length, message, sizeof(message));

    *ret_reason = "not_tls";
    if (wanted < 0) {
        bool is_over = wanted == -EAGAIN && length >= LIMIT_EGRESS_HEAD;

        return wanted == -EAGAIN && !is_over ? -EAGAIN : -EPROTO;
    }
    *ret_reason = check_message(message, (size_t)wanted, host);
    return *ret_reason ? -EPROTO : 0;
}
