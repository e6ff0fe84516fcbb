/*
 * doors.h - doors beside REST on the same listeners. Opened before the servers, closed when these
 * have stopped and before the tools go. Private to api/rest.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_DOORS_H
#define BAILEY_API_REST_DOORS_H

#include "http/server.h"

struct rest;

#define REST_DOORS_MAX 8

int rest_doors_open(struct rest *rest, struct error *err);
/* Writes the rows of all doors, unless `to` is NULL; returns how many there are. */
size_t rest_doors_routes(struct rest *rest, struct http_route *to);
void rest_doors_close(struct rest *rest); /* safe twice, and after half an opening */
/* Refuses in the shape of the door whose path it is; false: it is none of theirs. */
bool rest_doors_refuse(struct http_request *http, unsigned status, const char *header,
                       const char *why);

#endif
