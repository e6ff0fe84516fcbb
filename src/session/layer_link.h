/*
 * layer_link.h - a layer's files shown in another folder of the state, as hard links; inside of
 * session/.
 *
 * By descriptors, a little in each call, nothing followed. A file that is there already under the
 * name is replaced at once or stays; what the layer does not have goes in the end. Where the kernel
 * links no files between folders (Landlock before Linux 5.19) they are copied.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_LAYER_LINK_H
#define BAILEY_SESSION_LAYER_LINK_H

#include "base/error.h"

struct layer_link;
/* Both descriptors are borrowed until the end; names are below them. */
int layer_link_start(int layers_fd, const char *layer, int folder_fd, const char *name,
                     struct layer_link **ret, struct error *err);
/* 1: there is more to do, 0: it is done, or a negative errno. */
int layer_link_step(struct layer_link *link, struct error *err);
void layer_link_free(struct layer_link *link); /* NULL is fine */

#endif
