/* stub_box.c - code in a box, for tests: frames to its warden, and what comes back as text. */
#include "stub_box.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "wire/message.h"

void send_frame(int fd, enum frame_type type, uint32_t id, const void *data, size_t length)
{
    static uint8_t frame[WIRE_FRAME_MAX];
    struct pollfd writable = {.fd = fd, .events = POLLOUT};

    frame_header(frame, type, id, length);
    memcpy(frame + FRAME_HEADER, data, length);
    while (send(fd, frame, FRAME_HEADER + length, MSG_NOSIGNAL) < 0) {
        if (errno != EAGAIN)
            exit(8);
        poll(&writable, 1, -1);
    }
}

/* What a command or a cell writes, as it comes, up to its end. */
void copy_output(FILE *client, int fd, uint32_t id)
{
    static uint8_t data[WIRE_FRAME_MAX];
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    for (;;) {
        ssize_t length = recv(fd, data, sizeof(data), 0);
        struct message_exited exited;
        struct message_bytes bytes;
        struct frame frame;

        if (length < 0 && errno == EAGAIN && poll(&readable, 1, -1) > 0)
            continue;
        if (length <= 0 || frame_decode(data, (size_t)length, &frame) < 0) {
            fprintf(client, "\nlost\n");
            return;
        }
        if (frame.id != id)
            continue;
        if (frame.type == FRAME_NOEXEC) {
            fprintf(client, "\nnone\n");
            return;
        }
        if (frame.type == FRAME_OUTPUT && message_bytes_unpack(&frame, &bytes) == 0)
            fwrite(bytes.data, 1, bytes.length, client);
        if (frame.type == FRAME_EXITED && message_exited_unpack(&frame, &exited) == 0) {
            fprintf(client, "\nexited %d %u %u\n", exited.exit_code, exited.signal, exited.flags);
            return;
        }
    }
}

/* "cell BOX KERNEL" (or "script", or "cold BOX 0": /usr/bin/python3 as a command), then the code.
 */
void run_code(FILE *client, int client_fd, int channel_fd, uint32_t id, const char *word,
              uint32_t kernel, const char *begun)
{
    static char code[32 * KIB];
    struct message_cell cell = {.kernel = kernel,
                                .flags = strcmp(word, "script") == 0 ? CELL_SCRIPT : 0};
    struct message_exec exec = {.argc = 3};
    size_t have = 0;
    uint8_t packed[64];
    ssize_t length;

    if (strcmp(word, "cold") == 0) {
        memcpy(code, "/usr/bin/python3\0-c", sizeof("/usr/bin/python3\0-c"));
        have = sizeof("/usr/bin/python3\0-c");
    }
    have += (size_t)snprintf(code + have, sizeof(code) - have, "%s", begun);
    while ((length = read(client_fd, code + have, sizeof(code) - have - 2)) > 0)
        have += (size_t)length;
    code[have] = code[have + 1] = 0; /* the end of the string, and an empty working folder */
    cell.code_length = (uint32_t)have;
    exec.args_length = (uint32_t)have + 2;
    send_frame(channel_fd, FRAME_ARGS, 0, code, strcmp(word, "cold") == 0 ? have + 2 : have);
    if (strcmp(word, "cold") == 0)
        send_frame(channel_fd, FRAME_EXEC, id, packed,
                   (size_t)message_exec_pack(&exec, packed, sizeof(packed)));
    else
        send_frame(channel_fd, FRAME_CELL, id, packed,
                   (size_t)message_cell_pack(&cell, packed, sizeof(packed)));
    copy_output(client, channel_fd, id);
}

bool tell_zygote(FILE *client, const struct launcher_state *state)
{
    fprintf(client, "zygote tier %u ready %d pid %u forks %u memory %llu ", state->tier,
            state->is_ready, state->pid, state->forks, (unsigned long long)state->memory_bytes);
    return true;
}
