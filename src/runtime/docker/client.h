/*
 * client.h - calls of the command line to Docker's Engine API.
 *
 * DOCKER_HOST, DOCKER_CERT_PATH and DOCKER_TLS_VERIFY give its address. Blocks. Docker's replies
 * are not trusted: they have size limits, and their text is sanitised before it is shown.
 *
 * Runs in: commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_CLIENT_H
#define BAILEY_RUNTIME_DOCKER_CLIENT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "config/config.h"
#include "http/client.h"

typedef struct json_t json_t;

#define IMAGE_LABEL "bailey.image" /* on every image built by Bailey: its version */
#define IMAGE_LABEL_TEMPLATE "bailey.template"
#define IMAGE_LABEL_LAYER "bailey.layer"
#define IMAGE_LABEL_TIERS "bailey.tiers" /* of the template, as JSON */

struct docker_client {
    struct http_client *http;
    const char *host; /* from the configuration */
};

int docker_client_open(struct docker_client *docker, const struct config *config,
                       struct error *err);
void docker_client_close(struct docker_client *docker); /* for CLEANUP() */

/* The reply is a new reference (NULL if it is empty). A status of 400 and more is an error. */
int docker_client_call(struct docker_client *docker, const char *method, const char *path,
                       json_t **ret, struct error *err);

/* The error for a Docker that does not answer, with what to do about it. Returns err->num. */
int docker_client_lost(const struct docker_client *docker, const struct error *why,
                       struct error *err);
/* {"message": ...} of a reply. Returns err->num. */
int docker_client_refused(unsigned status, const struct buf *reply, struct error *err);

/*
 * "name[:tag]" as a name and a tag ("latest" if there is none); only characters of a reference, so
 * that neither has to be encoded.
 */
#define DOCKER_NAME_MAX 256
int docker_client_name(const char *text, char name[DOCKER_NAME_MAX], char tag[DOCKER_NAME_MAX],
                       struct error *err);
/* Whether it may be part of a path unchanged. Also an id, or a name with a digest. */
bool docker_client_is_name(const char *text);

#endif
