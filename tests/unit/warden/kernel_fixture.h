/*
 * kernel_fixture.h - a warden of warden_fixture.h with kernels in it. The kernel is this test
 * itself: its code is a line of words for each thing to do (obey(), below), and it remembers how
 * many cells it ran.
 */
#ifndef BAILEY_TESTS_KERNEL_FIXTURE_H
#define BAILEY_TESTS_KERNEL_FIXTURE_H

#include "warden/warden_fixture.h"

#include <stdio.h>

#include "sys/calls.h"
#include "sys/packet.h"

/* ---- the kernel ---- */

struct tiny {
    FILE *socket;
    unsigned id, cells;
    char flags[8];
    char *code, *input, *env;
    size_t code_length, input_length, env_length;
    int status;
    bool is_quiet; /* says no `end` */
};

static volatile sig_atomic_t was_interrupted;

static void interrupted(int number)
{
    (void)number;
    was_interrupted = 1;
}

static void tiny_write(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, data, length);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            _exit(99);
        data += written;
        length -= (size_t)written;
    }
}

static void tiny_say(int fd, const char *text)
{
    tiny_write(fd, text, strlen(text));
    tiny_write(fd, "\n", 1);
}

static void tiny_fill(int fd, size_t length, char first)
{
    static char block[4096];

    memset(block, 'x', sizeof(block));
    for (size_t at = 0; at < length; at += sizeof(block)) {
        block[0] = at == 0 ? first : 'x';
        tiny_write(fd, block, length - at < sizeof(block) ? length - at : sizeof(block));
    }
}

/* Until a SIGINT comes; "up" says that it would be seen. */
static void tiny_wait(struct tiny *tiny)
{
    sigset_t mask, old;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigprocmask(SIG_BLOCK, &mask, &old);
    tiny_say(1, "up");
    while (!was_interrupted)
        sigsuspend(&old);
    was_interrupted = 0;
    sigprocmask(SIG_SETMASK, &old, NULL);
    tiny->status = 1;
}

/* Somebody who outlives the cell, with all its descriptors. */
static void tiny_fork(void)
{
    char text[32];
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        for (;;)
            pause();
    }
    snprintf(text, sizeof(text), "%d", (int)pid);
    tiny_say(1, text);
}

static void tiny_list(void)
{
    for (int fd = 0; fd < 1000; fd++) {
        char text[16];

        snprintf(text, sizeof(text), "%d", fd);
        if (fcntl(fd, F_GETFD) >= 0)
            tiny_say(1, text);
    }
}

static void tiny_tell(const struct tiny *tiny)
{
    char text[256];
    unsigned long sum = 0;

    for (size_t i = 0; i < tiny->code_length; i++)
        sum = sum * 31 + (unsigned char)tiny->code[i];
    snprintf(text, sizeof(text), "%u %s %zu %lu [%.*s] [%.*s]", tiny->cells, tiny->flags,
             tiny->code_length, sum, (int)tiny->input_length, tiny->input, (int)tiny->env_length,
             tiny->env);
    tiny_say(1, text);
}

static void obey(struct tiny *tiny, const char *word, const char *rest)
{
    if (strcmp(word, "out") == 0)
        tiny_say(1, rest);
    else if (strcmp(word, "err") == 0)
        tiny_say(2, rest);
    else if (strcmp(word, "say") == 0) /* on the socket: an event, an end, nonsense */
        tiny_say(3, rest);
    else if (strcmp(word, "half") == 0)
        tiny_write(3, rest, strlen(rest));
    else if (strcmp(word, "fill") == 0)
        tiny_fill(1, strtoul(rest, NULL, 10), 'x');
    else if (strcmp(word, "event") == 0) {
        tiny_fill(3, strtoul(rest, NULL, 10) - 1, '{');
        tiny_say(3, "");
    } else if (strcmp(word, "tell") == 0)
        tiny_tell(tiny);
    else if (strcmp(word, "wait") == 0)
        tiny_wait(tiny);
    else if (strcmp(word, "fork") == 0)
        tiny_fork();
    else if (strcmp(word, "list") == 0)
        tiny_list();
    else if (strcmp(word, "close") == 0)
        close((int)strtol(rest, NULL, 10));
    else if (strcmp(word, "exit") == 0)
        _exit((int)strtol(rest, NULL, 10));
    else if (strcmp(word, "raise") == 0) {
        signal((int)strtol(rest, NULL, 10), SIG_DFL); /* a sanitizer has a handler of its own */
        raise((int)strtol(rest, NULL, 10));
    } else if (strcmp(word, "status") == 0)
        tiny->status = (int)strtol(rest, NULL, 10);
    else if (strcmp(word, "quiet") == 0)
        tiny->is_quiet = true;
    else if (strcmp(word, "after") == 0) { /* said, and torn, when the cell is over */
        dprintf(3, "end %u 0\n{\"too\": \"late\"}\n{\"torn\": ", tiny->id);
        tiny_say(1, rest);
        tiny->is_quiet = true;
    }
}

static char *tiny_read(FILE *socket, size_t length)
{
    char *text = calloc(1, length + 1);

    if (!text || fread(text, 1, length, socket) != length)
        _exit(98);
    return text;
}

static void tiny_run(struct tiny *tiny)
{
    char *rest, *line;

    tiny->code = tiny_read(tiny->socket, tiny->code_length);
    tiny->input = tiny_read(tiny->socket, tiny->input_length);
    tiny->env = tiny_read(tiny->socket, tiny->env_length);
    tiny->cells++;
    tiny->status = 0;
    tiny->is_quiet = strchr(tiny->flags, 's') != NULL;
    rest = strdup(tiny->code);
    while ((line = strsep(&rest, "\n"))) {
        char *word = strsep(&line, " ");

        obey(tiny, word, line ? line : "");
    }
    if (!tiny->is_quiet)
        dprintf(3, "end %u %d\n", tiny->id, tiny->status);
}

/* What docs/kernels.md asks of a kernel. */
static _Noreturn void tiny_kernel(void)
{
    struct sigaction action = {.sa_handler = interrupted}; /* no SA_RESTART */
    struct tiny tiny = {.socket = fdopen(3, "r")};

    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    while (fscanf(tiny.socket, "cell %u %7s %zu %zu %zu", &tiny.id, tiny.flags, &tiny.code_length,
                  &tiny.input_length, &tiny.env_length) == 5 &&
           fgetc(tiny.socket) == '\n')
        tiny_run(&tiny);
    _exit(feof(tiny.socket) ? 0 : 97);
}

/* ---- its host ---- */

static inline void start_kernel(struct warden_fixture *fixture, uint32_t id, uint32_t flags)
{
    struct message_exec exec = {.flags = EXEC_KERNEL | flags, .argc = 2};
    char args[512] = {0};
    ssize_t length = readlink("/proc/self/exe", args, 400);

    assert_in_range(length, 1, 399);
    memcpy(args + length + 1, "kernel\0", 8); /* and an empty folder */
    exec.args_length = (uint32_t)length + 9;
    give(fixture, FRAME_ARGS, 0, args, exec.args_length);
    give_exec(fixture, id, &exec);
    take(fixture, FRAME_STARTED, id);
}

static inline void give_fds(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                            const void *payload, size_t length, const int *fds, size_t count)
{
    uint8_t data[64];

    frame_header(data, type, id, length);
    if (length > 0)
        memcpy(data + FRAME_HEADER, payload, length);
    assert_int_equal(packet_send(fixture->fd, data, FRAME_HEADER + length, fds, count, 0), 0);
}

/* As a zygote would make it: our child, in a session of its own, with its descriptors. */
static inline pid_t make_kernel(int fds[3])
{
    int pair[2], out[2], err[2];
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        int socket = fcntl(pair[1], F_DUPFD, 10);

        setsid();
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        dup2(socket, 3);
        sys_close_range(4, ~0U, 0);
        tiny_kernel();
    }
    assert_true(pid > 0);
    close(pair[1]);
    close(out[1]);
    close(err[1]);
    fds[0] = pair[0];
    fds[1] = out[0];
    fds[2] = err[0];
    return pid;
}

static inline pid_t give_kernel(struct warden_fixture *fixture, uint32_t id)
{
    struct message_kernel message;
    uint8_t payload[4];
    int fds[3];

    message.pid = make_kernel(fds);
    message_kernel_pack(&message, payload, sizeof(payload));
    give_fds(fixture, FRAME_KERNEL, id, payload, sizeof(payload), fds, 3);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    return message.pid;
}

static inline void give_args(struct warden_fixture *fixture, const char *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t part = length - at < FRAME_PAYLOAD_MAX ? length - at : FRAME_PAYLOAD_MAX;

        give(fixture, FRAME_ARGS, 0, data + at, part);
        at += part;
    }
}

static inline void give_cell(struct warden_fixture *fixture, uint32_t id,
                             const struct message_cell *cell)
{
    uint8_t payload[32];

    give(fixture, FRAME_CELL, id, payload,
         (size_t)message_cell_pack(cell, payload, sizeof(payload)));
}

static inline void run_cell(struct warden_fixture *fixture, uint32_t id, uint32_t kernel,
                            uint32_t flags, const char *code)
{
    struct message_cell cell = {
        .kernel = kernel, .flags = flags, .code_length = (uint32_t)strlen(code)};

    give_args(fixture, code, strlen(code));
    give_cell(fixture, id, &cell);
}

/* Runs it to its end; what it printed is in *ended. */
static inline void do_cell(struct warden_fixture *fixture, uint32_t id, uint32_t kernel,
                           const char *code, struct ended *ended)
{
    run_cell(fixture, id, kernel, 0, code);
    finish(fixture, id, ended);
    assert_true(ended->was_started);
    assert_true(ended->exited.event_bytes >= ended->bytes[3]);
}

static inline struct message_exited take_exited(struct warden_fixture *fixture, uint32_t id)
{
    struct frame frame = take(fixture, FRAME_EXITED, id);
    struct message_exited exited;

    assert_int_equal(message_exited_unpack(&frame, &exited), 0);
    return exited;
}

/* Output of a stream until it is this; nothing else comes meanwhile. */
static inline void await_output(struct warden_fixture *fixture, uint32_t id, uint8_t stream,
                                const char *text)
{
    char seen[512] = "";
    size_t have = 0;

    do {
        struct frame frame = take(fixture, FRAME_OUTPUT, id);
        struct message_bytes bytes;

        assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
        assert_int_equal(bytes.stream, stream);
        assert_true(bytes.length < sizeof(seen) - have);
        memcpy(seen + have, bytes.data, bytes.length);
        have += bytes.length;
        give_ack(fixture, id, stream, bytes.offset + bytes.length);
    } while (have < strlen(text));
    assert_string_equal(seen, text);
}

#define TINY_MAIN(argc, argv)                            \
    do {                                                 \
        if (argc == 2 && strcmp(argv[1], "kernel") == 0) \
            tiny_kernel();                               \
    } while (0)

#endif
