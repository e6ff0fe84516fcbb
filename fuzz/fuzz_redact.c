/*
 * fuzz_redact.c - any text through redact(). It always succeeds below its ceiling, keeps the lines
 * and valid UTF-8, and a plain secret on a line of its own is gone whatever stands before it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/artifact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int claim)
{
    if (!claim)
        abort();
}

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 0;

    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

static int is_utf8(const char *text, size_t length)
{
    size_t at = 0;

    while (at < length) {
        int step = utf8_length(text + at, length - at);

        if (step <= 0)
            return 0;
        at += (size_t)step;
    }
    return 1;
}

static void check(const char *text, size_t length, struct buf *out)
{
    out->maximum = 4 * length;
    require(redact(text, length, out) == 0);
    require(count_lines(text, length) == count_lines(buf_text(out), out->length));
    require(!is_utf8(text, length) || is_utf8(buf_text(out), out->length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char canary[] = "\nMY_API_KEY = \"zQ8-canary-zQ8\"\n";
    struct buf text = BUF_INIT(size + sizeof(canary)), out = {0};

    check((const char *)data, size, &out);
    /* An input that says the canary itself proves nothing. */
    if (!memmem(data, size, "canary", 6)) {
        require(buf_append(&text, data, size) == 0 && buf_append_text(&text, canary) == 0);
        check(text.data, text.length, &out);
        require(!memmem(buf_text(&out), out.length, "canary", 6));
    }
    buf_free(&text);
    buf_free(&out);
    return 0;
}
