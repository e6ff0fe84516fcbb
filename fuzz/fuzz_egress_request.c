/*
 * fuzz_egress_request.c - any bytes as the head of a request to the proxy, as SOCKS, as an upstream
 * proxy's answer, as a ClientHello: refused, or understood so that what is written anew is
 * understood the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "egress/hello.h"
#include "egress/policy.h"
#include "egress/request.h"
#include "egress/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

/* One more time through the parser, as an upstream proxy would read it. */
static void read_again(const struct request *first)
{
    struct buf text = {.maximum = 4 * LIMIT_EGRESS_HEAD};
    struct upstream upstream = {.is_set = true};
    struct request again;
    int status;

    check(request_write(first, &upstream, &text) == 0);
    if (text.length <= LIMIT_EGRESS_HEAD) {
        check(request_parse(text.data, text.length, &again, &status) == 0);
        check(again.head_bytes == text.length && again.is_connect == first->is_connect);
        check(host_equal(&again.host, &first->host) && again.port == first->port);
        check(again.body_bytes == first->body_bytes);
    }
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request request;
    struct host host = {.name = "index.test"};
    enum socks_reply reply;
    const char *reason;
    uint16_t port;
    size_t head;
    int status = 0;

    if (request_parse((const char *)data, size, &request, &status) == 0) {
        check(request.head_bytes <= size && request.port > 0);
        read_again(&request);
    }
    if (answer_parse((const char *)data, size, &status, &head) == 0)
        check(head <= size && status >= 0 && status <= 999);
    check(socks_greeting(data, size) <= (int)size);
    check(socks_request(data, size, &host, &port, &reply) <= (int)size);
    host = (struct host){.name = "index.test"};
    hello_check(data, size, &host, &reason);
    return 0;
}
