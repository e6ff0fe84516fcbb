/*
 * layer_link.h - shows a layer's files in another folder of the state directory as hard links; used
 * inside session/ only.
 *
 * Works by descriptors, a little in each call, and follows no links. An existing file is replaced
 * atomically or stays; files that the layer does not have are removed at the end. Where the kernel
 * cannot link files between folders (Landlock before Linux 5.19) they are copied.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_LAYER_LINK_H
#define BAILEY_SESSION_LAYER_LINK_H

#include "base/error.h"

struct layer_link;
/* Both descriptors are borrowed until layer_link_free(); names are relative to them. */
int layer_link_start(int layers_fd, const char *layer, int folder_fd, const char *name,
                     struct layer_link **ret, struct error *err);
/* 1: more to do, 0: done, or a negative errno. */
int layer_link_step(struct layer_link *link, struct error *err);
void layer_link_free(struct layer_link *link); /* NULL is fine */

#endif
