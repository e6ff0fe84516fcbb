/*
 * clean.h - takes out of a model's text what its reader cannot open: pictures in Markdown, and
 * links to files of the sandbox (their words stay). Text in backquotes is left as it is.
 *
 * Works on text as it arrives: at most CLEAN_HELD bytes wait until it is known whether they are a
 * link. Pure; hostile input; fuzzed.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_CHAT_CLEAN_H
#define BAILEY_API_CHAT_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CLEAN_HELD 4096

struct clean {
    struct buf held;
    size_t quoted; /* length of the run of backquotes that began a quotation; 0: none */
};
#define CLEAN_INIT ((struct clean){.held = BUF_INIT(16 * 1024 * 1024)})

/* Appends what is decided; is_last: nothing waits afterwards. 0, -EFBIG or -ENOMEM. */
int clean_feed(struct clean *clean, const char *text, size_t length, bool is_last, struct buf *to);
void clean_free(struct clean *clean);

#endif
