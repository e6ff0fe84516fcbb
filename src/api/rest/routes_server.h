/*
 * routes_server.h - rows of the REST door about the server itself; included by routes.c in the
 * middle of its table, and by nobody else.
 *
 * Runs in: broker
 */

#define B_RELOAD                                                                      \
    OBJECT(MEMBER("settings", S_ENV) "," MEMBER(                                      \
               "tls", OBJECT(MEMBER("certificate", S_NAME) "," MEMBER("key", S_NAME), \
                             "\"certificate\",\"key\"")),                             \
           "\"settings\"")
#define S_NAMES "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"

{"POST",
 "/v1/reload",
 "reload",
 "New configuration and certificates, over the daemon's own socket only; says what changed and "
 "what needs a restart",
 {{0}},
 BODY_JSON,
 B_RELOAD,
 200,
 TYPE_JSON,
 OBJECT(
     MEMBER("changed", S_NAMES) "," MEMBER("restart", S_NAMES) "," MEMBER("certificate", S_BOOLEAN),
     "\"changed\",\"restart\",\"certificate\""),
 "forbidden",
 SCOPE_ADMIN,
 false,
 reload_post},
