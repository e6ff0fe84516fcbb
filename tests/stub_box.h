/*
 * stub_box.h - code in a box, for tests/broker_stub.c: over the box's channel, which nobody else
 * reads meanwhile. Blocks until the code has ended; ends the program when the channel breaks.
 */
#ifndef BAILEY_TESTS_STUB_BOX_H
#define BAILEY_TESTS_STUB_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "launcher/protocol.h"
#include "wire/frame.h"

void send_frame(int fd, enum frame_type type, uint32_t id, const void *data, size_t length);
/* What command or cell `id` writes, as it comes, then a line that says how it ended. */
void copy_output(FILE *client, int fd, uint32_t id);
/*
 * `word`: "cell" or "script" of a kernel, or "cold": /usr/bin/python3 -c as a command. The code is
 * what has come (`begun`) and what is still to be read from the client.
 */
void run_code(FILE *client, int client_fd, int channel_fd, uint32_t id, const char *word,
              uint32_t kernel, const char *begun);

/* One of them in the answer to "look"; true. */
bool tell_zygote(FILE *client, const struct launcher_state *state);

#endif
