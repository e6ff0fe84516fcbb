/*
 * containers.h - what the files of this door share: replies in OpenAI's shapes, pages of lists,
 * bodies with a file. For the files of containers/ only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_CONTAINERS_CONTAINERS_H
#define BAILEY_API_CONTAINERS_CONTAINERS_H

#include <jansson.h>

#include "api/front/door.h"
#include "api/front/reply.h"
#include "api/openai_error.h"
#include "session/container.h"
#include "session/upload.h"

/* ---- pages.c: {"object":"list","data","first_id","last_id","has_more"} ---- */

/* Takes over `all`, an array of objects with an id, oldest first. Arguments of the call: limit,
 * order, after. Answers it. */
void containers_reply_list(struct door_call *call, json_t *all, uint64_t limit, bool is_ascending);

/* ---- containers.c ---- */
json_t *containers_json(struct session_manager *manager, const struct container_row *row);
/* The container of {id}, which counts as used; false: the request was answered. */
bool containers_take(struct door_call *call, struct container_row *ret);
void containers_create(struct door_call *call);
void containers_list(struct door_call *call);
void containers_get(struct door_call *call);
void containers_delete(struct door_call *call);

/* ---- container_files.c ---- */
void container_files_create(struct door_call *call);
void container_files_list(struct door_call *call);
void container_files_get(struct door_call *call);
void container_files_delete(struct door_call *call);
void container_files_content(struct door_call *call);

/* ---- files.c ---- */
void uploads_create(struct door_call *call);
void uploads_list(struct door_call *call);
void uploads_get(struct door_call *call);
void uploads_delete(struct door_call *call);
void uploads_content(struct door_call *call);

/* ---- form.c: a body with a file and fields, streamed to disk ---- */

/*
 * A request with such a body. done() is called once when the body is complete and valid; it answers
 * and frees the form, or keeps it for a job. A client that leaves frees it.
 */
struct form {
    struct front *front;
    struct http_request *http;
    struct caller caller;
    json_t *fields;             /* {NAME: text}; of a JSON body: that body */
    struct upload_writer *file; /* NULL: no file came */
    char *filename;
    struct container_row container;
    struct container_job *job; /* for done(); cancelled by form_free() */
    struct form_reading *reading;
};
/* takes_json: a body of another type is read as JSON; else it is an error. */
struct form *form_new(struct door_call *call); /* NULL: the request was answered */
void form_read(struct form *form, bool takes_json, void (*done)(struct form *form));
void form_free(struct form *form);
const char *form_text(const struct form *form, const char *name); /* NULL: it is not there */
/* Answers with the error and frees it. */
void form_fail(struct form *form, const struct error *err, const char *param);

/* ---- content.c: bytes of a file as a reply ---- */
void content_send_disk(struct http_request *http, struct front *front, int fd, const char *name);
void content_send_box(struct door_call *call, struct session *session, const char *path);

/* Metrics and audit of a change to a file; err NULL: it succeeded. */
void containers_changed(struct front *front, const struct http_request *http,
                        const struct caller *caller, const char *change, const char *container,
                        const char *path, uint64_t bytes, const struct error *err);

#endif
