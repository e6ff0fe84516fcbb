/*
 * head.h - checks on a request's headers before they are used: forms that two servers read
 * differently (smuggling), and whether its Host and its Origin are allowed.
 *
 * Pure; every byte is hostile. head_add() is called for each header in order, head_check() once
 * after the last. Texts are borrowed.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_HEAD_H
#define BAILEY_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

struct head {
    const char *host, *origin, *coding; /* the first of each; NULL: none */
    unsigned host_count, origin_count, coding_count, length_count;
    bool is_malformed; /* a name or a value with bytes that may not be in it */
};

void head_add(struct head *head, const char *name, size_t name_length, const char *value,
              size_t value_length);
/* NULL, or what is wrong with it: answered 400, and the connection closed. */
const char *head_check(const struct head *head, bool is_old); /* is_old: HTTP/1.0 */

/*
 * `hosts`: "name" matches any port, "name:port" only that one. NULL: every host matches. A numeric
 * address always matches: others can point a name of theirs at us, but not an address.
 */
bool head_host_fits(const char *host, const char *const *hosts);

enum head_origin {
    ORIGIN_OWN,     /* a page of this server */
    ORIGIN_LISTED,  /* one of `origins` */
    ORIGIN_FOREIGN, /* neither */
};
enum head_origin head_origin(const char *origin, const char *host, const char *const *origins);

#endif
