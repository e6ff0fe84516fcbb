/*
 * fuzz_egress_host.c - any bytes as a host with its port: refused, or one whose text is read as the
 * same host again. And as a message between launcher and proxy: refused, or the same bytes again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "egress/host.h"
#include "egress/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-.:";
    uint8_t packed[EGRESS_MESSAGE_MAX];
    struct egress_message message;
    struct host host, again;
    char text[HOST_TEXT_MAX + 2];
    uint16_t port;

    if (host_parse_port((const char *)data, size, 80, &host, &port) == 0) {
        check(host.name[0] && strspn(host.name, letters) == strlen(host.name));
        host_in_url(&host, text);
        check(host_parse(text, strlen(text), &again) == 0 && host_equal(&host, &again));
        check(host.is_address == again.is_address &&
              address_kind(&host.address) < _ADDRESS_KIND_MAX);
    }
    if (egress_message_unpack(data, size, &message) == 0) {
        long length = egress_message_pack(&message, packed, sizeof(packed));

        check(length == (long)size && memcmp(packed, data, size) == 0);
    }
    return 0;
}
