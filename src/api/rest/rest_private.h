/*
 * rest_private.h - functions of the REST door, for the files of rest/ only; rows, calls and replies
 * are in front/door.h and front/reply.h.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_REST_PRIVATE_H
#define BAILEY_API_REST_REST_PRIVATE_H

#include <jansson.h>

#include "api/exec_stream.h"
#include "api/front/door.h"
#include "api/front/reply.h"
#include "base/buf.h"
#include "base/limits.h"

extern const struct door_ops rest_door; /* routes.c */
extern const char rest_nouns[];         /* nouns.c: members of components.schemas, as text */
extern const struct door_field rest_noun_fields[]; /* nouns.c: what their members mean */

/*
 * Checks of an environment (NULL: none) that the schema cannot express; false: it was answered
 * (sessions.c).
 */
/* type, isolation and limits of the body, as settings of the caller; false: it was answered. */
bool rest_take_settings(struct door_call *call);
bool rest_check_env(struct http_request *http, json_t *env);

/* ---- files (file_call.c, file_watch.c) ---- */

/* An operation on a file or a dataset has ended. */
struct rest_file_over {
    const struct caller *caller;
    const char *session; /* id of the session */
    const char *change;  /* "written", ...; NULL: nothing was changed */
    const char *path;
    uint64_t bytes;    /* bytes that were written */
    const char *error; /* NULL: success */
};
void rest_file_over(struct front *front, const struct http_request *http,
                    const struct rest_file_over *over);
void rest_file_bytes(struct front *front, const char *direction, uint64_t bytes); /* "in", "out" */

/* ---- executions (follow.c, await.c, started.c) ---- */

/* An execution to be followed to its end. */
struct rest_following {
    struct exec_stream_spec exec_stream;
    bool is_owner; /* this request started it: if the client leaves, it is not wanted any more */
};
/* Replies with its events. A client that leaves stops waiting for it. */
void rest_follow(struct door_call *call, const struct rest_following *following);
/* Replies with its result. */
void rest_await(struct door_call *call, const struct rest_following *following);

/* Whether the client asked for events instead of the result. */
bool rest_wants_events(const struct http_request *http);
/*
 * Replies for an execution that this call started: its events, its description if it runs in the
 * background, or its result.
 */
void rest_answer_started(struct door_call *call, struct session *session,
                         struct execution *execution);

/* ---- handlers, by subject ---- */
#define HANDLER(name) void name(struct door_call *call)
HANDLER(info_health);
HANDLER(info_get);
HANDLER(warm_get);
HANDLER(metrics_get);
HANDLER(audit_get);
HANDLER(reload_post);
HANDLER(tools_list);
HANDLER(tools_call);
HANDLER(run_start);
HANDLER(run_stop);
HANDLER(sessions_create);
HANDLER(sessions_list);
HANDLER(sessions_get);
HANDLER(sessions_extend);
HANDLER(sessions_delete);
HANDLER(sessions_pause);
HANDLER(sessions_resume);
HANDLER(exec_start);
HANDLER(code_start);
HANDLER(codebox_run);
HANDLER(contexts_list);
HANDLER(contexts_create);
HANDLER(contexts_restart);
HANDLER(contexts_interrupt);
HANDLER(contexts_delete);
HANDLER(processes_list);
HANDLER(processes_get);
HANDLER(processes_output);
HANDLER(processes_events);
HANDLER(processes_signal);
HANDLER(processes_stdin);
HANDLER(processes_resize);
HANDLER(files_get);
HANDLER(files_put);
HANDLER(files_delete);
HANDLER(files_stat);
HANDLER(files_list);
HANDLER(files_watch);
HANDLER(files_mkdir);
HANDLER(files_move);
HANDLER(files_chmod);
HANDLER(ports_list);
HANDLER(ports_link);
HANDLER(datasets_list);
HANDLER(datasets_put);
HANDLER(outputs_list);
HANDLER(outputs_get);
HANDLER(artifacts_get);
HANDLER(artifacts_info);
HANDLER(artifacts_list_all);
HANDLER(artifacts_link);
HANDLER(artifacts_keep);
HANDLER(artifacts_delete);
HANDLER(docs_openapi);
HANDLER(docs_page);
HANDLER(packages_list);
HANDLER(packages_install);
HANDLER(templates_list);
HANDLER(templates_get);
HANDLER(templates_build);
HANDLER(templates_delete);
HANDLER(templates_verify);
HANDLER(events_all);
HANDLER(events_session);
HANDLER(keys_list);
HANDLER(keys_create);
HANDLER(keys_rotate_one);
HANDLER(keys_delete);
#undef HANDLER

#endif
