/*
 * test_stream.c - a warden whose channel is two pipes: frames in any pieces, a reader that does not
 * read, hosts that vanish or do not speak the language.
 */
#include "warden/warden_fixture.h"

#include <sys/ioctl.h>
#include <time.h>

#define FLOOD_BYTES (3 * WIRE_STREAM_WINDOW + 7)

struct pipes {
    struct scratch scratch;
    int in_fd, out_fd; /* the host's ends; -1: closed */
    pid_t pid;
    struct frame_stream frames;
    uint8_t data[4096]; /* read, and not all of it taken */
    size_t at, have;
};

static void hang_up(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The next frame that is whole; false: the warden has closed its end, and not within a frame. */
static bool next_frame(struct pipes *pipes, struct frame *ret)
{
    for (;;) {
        int r;

        if (pipes->at == pipes->have) {
            struct pollfd poll_fd = {.fd = pipes->out_fd, .events = POLLIN};
            ssize_t length;

            assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
            length = read(pipes->out_fd, pipes->data, sizeof(pipes->data));
            assert_true(length >= 0);
            if (length == 0) {
                /* what stands there is a frame that was handed out */
                assert_true(pipes->frames.have == 0 || frame_stream_next(&pipes->frames, ret) == 1);
                return false;
            }
            pipes->at = 0;
            pipes->have = (size_t)length;
        }
        pipes->at +=
            frame_stream_feed(&pipes->frames, pipes->data + pipes->at, pipes->have - pipes->at);
        r = frame_stream_next(&pipes->frames, ret);
        assert_true(r >= 0);
        if (r == 1)
            return true;
    }
}

static struct frame next_of(struct pipes *pipes, enum frame_type type, uint32_t id)
{
    struct frame frame;

    assert_true(next_frame(pipes, &frame));
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.id, id);
    return frame;
}

static int pipes_set_up(void **state)
{
    struct pipes *pipes = calloc(1, sizeof(*pipes));
    struct message_ready ready;
    struct frame frame;
    int in[2], out[2];

    if (!pipes || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return -1;
    make_shares(&pipes->scratch);
    pipes->in_fd = in[1];
    pipes->out_fd = out[0];
    pipes->pid = fork();
    if (pipes->pid == 0) {
        close(in[1]);
        close(out[0]);
        warden_run_stream(enter_shares(&pipes->scratch), in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    *state = pipes;
    frame = next_of(pipes, FRAME_READY, 0);
    assert_int_equal(message_ready_unpack(&frame, &ready), 0);
    assert_int_equal(ready.descriptors, 0);
    return 0;
}

static void check_over(struct pipes *pipes)
{
    int status = -1;

    assert_int_equal(waitpid(pipes->pid, &status, 0), pipes->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pipes->pid = 0;
}

static int pipes_tear_down(void **state)
{
    struct pipes *pipes = *state;

    hang_up(&pipes->in_fd);
    if (pipes->pid > 0)
        check_over(pipes);
    hang_up(&pipes->out_fd);
    scratch_remove(&pipes->scratch);
    free(pipes);
    return 0;
}

/* In pieces of so many bytes. */
static void say(struct pipes *pipes, const void *data, size_t length, size_t piece)
{
    const uint8_t *at = data;

    while (length > 0) {
        size_t part = length < piece ? length : piece;

        assert_int_equal(write(pipes->in_fd, at, part), (ssize_t)part);
        at += part;
        length -= part;
    }
}

static void say_frame(struct pipes *pipes, enum frame_type type, uint32_t id, const void *payload,
                      size_t length, size_t piece)
{
    static uint8_t data[WIRE_FRAME_MAX];

    frame_header(data, type, id, length);
    if (length > 0)
        memcpy(data + FRAME_HEADER, payload, length);
    say(pipes, data, FRAME_HEADER + length, piece);
}

/* A warden that ends with its command does not wait for this: it may be gone. */
static void say_ack(struct pipes *pipes, uint32_t id, uint8_t stream, uint64_t offset)
{
    struct message_ack ack = {.stream = stream, .offset = offset};
    uint8_t data[FRAME_HEADER + 9];
    size_t length = (size_t)message_ack_pack(&ack, data + FRAME_HEADER, 9);
    ssize_t written;

    frame_header(data, FRAME_ACK, id, length);
    written = write(pipes->in_fd, data, FRAME_HEADER + length);
    assert_true(written == (ssize_t)(FRAME_HEADER + length) || (written < 0 && errno == EPIPE));
}

static void say_start(struct pipes *pipes, uint32_t id, uint32_t flags, const char *script,
                      size_t piece)
{
    struct message_exec exec = {.flags = flags, .argc = 3};
    char args[512];
    uint8_t payload[32];
    int length = snprintf(args, sizeof(args), "sh%c-c%c%s%c", 0, 0, script, 0);

    exec.args_length = (uint32_t)length + 1;
    say_frame(pipes, FRAME_ARGS, 0, args, exec.args_length, piece);
    say_frame(pipes, FRAME_EXEC, id, payload,
              (size_t)message_exec_pack(&exec, payload, sizeof(payload)), piece);
}

/* Output of a command, byte for byte in its order, up to its end. */
static void hear_out(struct pipes *pipes, uint32_t id, struct ended *ended)
{
    struct frame frame;

    memset(ended, 0, sizeof(*ended));
    for (;;) {
        struct message_bytes bytes;
        uint64_t *seen;

        assert_true(next_frame(pipes, &frame));
        if (frame.id != id)
            continue;
        ended->was_started |= frame.type == FRAME_STARTED;
        if (frame.type == FRAME_EXITED)
            break;
        if (frame.type != FRAME_OUTPUT)
            continue;
        assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
        seen = &ended->bytes[bytes.stream];
        assert_true(bytes.offset == *seen);
        if (*seen + bytes.length < sizeof(ended->text[0]))
            memcpy(ended->text[bytes.stream] + *seen, bytes.data, bytes.length);
        *seen += bytes.length;
        say_ack(pipes, id, bytes.stream, *seen);
    }
    assert_int_equal(message_exited_unpack(&frame, &ended->exited), 0);
    assert_true(ended->exited.out_bytes == ended->bytes[1]);
}

static void test_any_pieces(void **state)
{
    static const size_t pieces[] = {1, 2, 11, 13, SIZE_MAX};
    struct pipes *pipes = *state;

    for (uint32_t i = 0; i < 5; i++) {
        struct ended ended;

        say_start(pipes, i + 1, EXEC_STDIN, "cat; echo done; exit 3", pieces[i]);
        say_frame(pipes, FRAME_STDIN, i + 1, "\0\0\0\0\0\0\0\0\0in ", 12, pieces[i]);
        say_frame(pipes, FRAME_STDIN_END, i + 1, NULL, 0, pieces[i]);
        hear_out(pipes, i + 1, &ended);
        assert_true(ended.was_started);
        assert_string_equal(ended.text[1], "in done\n");
        assert_int_equal(ended.exited.exit_code, 3);
    }
}

static void say_flood(struct pipes *pipes, uint32_t id)
{
    char script[64];

    snprintf(script, sizeof(script), "head -c %llu /dev/zero", (unsigned long long)FLOOD_BYTES);
    say_start(pipes, id, 0, script, SIZE_MAX);
}

/* So much that the pipe is full and a frame stands in it half. */
static void await_full(struct pipes *pipes)
{
    int size = fcntl(pipes->out_fd, F_GETPIPE_SZ), have = 0;

    assert_true(size > 0);
    while (have < size / 2) {
        struct timespec pause = {.tv_nsec = 1000000};

        assert_int_equal(ioctl(pipes->out_fd, FIONREAD, &have), 0);
        nanosleep(&pause, NULL);
    }
}

/* Whoever does not read holds up nobody, and finds every frame whole when he does. */
static void test_a_reader_that_blocks(void **state)
{
    struct pipes *pipes = *state;
    struct ended ended;

    say_flood(pipes, 1);
    await_full(pipes);
    say_start(pipes, 2, 0, "touch beside", SIZE_MAX);
    while (access(scratch_path(&pipes->scratch, "work/beside"), F_OK) < 0) {
        struct timespec pause = {.tv_nsec = 1000000};

        nanosleep(&pause, NULL);
    }
    hear_out(pipes, 1, &ended);
    assert_true(ended.bytes[1] == FLOOD_BYTES);
}

/* What a new host drops are frames that wait, not the rest of one that has begun. */
static void test_a_new_host_in_the_middle(void **state)
{
    struct pipes *pipes = *state;
    struct message_inventory inventory;
    struct message_resume resume;
    struct frame frame;
    struct ended ended;
    uint8_t payload[64];

    say_flood(pipes, 1);
    await_full(pipes);
    say_frame(pipes, FRAME_HELLO, 77, NULL, 0, SIZE_MAX);
    do {
        assert_true(next_frame(pipes, &frame));
    } while (frame.type != FRAME_INVENTORY);
    assert_int_equal(message_inventory_unpack(&frame, &inventory), 0);
    assert_int_equal(inventory.generation, 77);
    next_of(pipes, FRAME_WELCOME, 77);
    memcpy(resume.offset, inventory.acked, sizeof(resume.offset));
    say_frame(pipes, FRAME_RESUME, 1, payload,
              (size_t)message_resume_pack(&resume, payload, sizeof(payload)), SIZE_MAX);
    hear_out(pipes, 1, &ended);
    assert_true(ended.bytes[1] == FLOOD_BYTES);
}

/* The last word is there, whole, before the end of the box. */
static void test_a_command_that_ends_the_box(void **state)
{
    struct pipes *pipes = *state;
    struct ended ended;
    struct frame frame;

    say_start(pipes, 1, EXEC_ENDS_BOX, "sleep 1000 & echo bye", SIZE_MAX);
    hear_out(pipes, 1, &ended);
    assert_string_equal(ended.text[1], "bye\n");
    assert_false(next_frame(pipes, &frame));
    check_over(pipes);
}

static void test_the_host_hangs_up(void **state)
{
    struct pipes *pipes = *state;
    struct frame frame;

    say_start(pipes, 1, 0, "echo up; exec sleep 1000", SIZE_MAX);
    next_of(pipes, FRAME_STARTED, 1);
    next_of(pipes, FRAME_OUTPUT, 1);
    say(pipes, "\x40", 1, 1); /* half a frame is none */
    hang_up(&pipes->in_fd);
    assert_false(next_frame(pipes, &frame));
    check_over(pipes);
}

static void test_nobody_reads_any_more(void **state)
{
    struct pipes *pipes = *state;

    say_start(pipes, 1, 0, "echo up; exec sleep 1000", SIZE_MAX);
    next_of(pipes, FRAME_STARTED, 1);
    hang_up(&pipes->out_fd); /* seen though there is nothing to say */
    check_over(pipes);
}

static void check_ends(struct pipes *pipes)
{
    struct frame frame;

    assert_false(next_frame(pipes, &frame));
    check_over(pipes);
}

static void test_nonsense(void **state)
{
    static const uint8_t nonsense[FRAME_HEADER] = {0xff, 0xff, 0xff, 0xff};

    say(*state, nonsense, sizeof(nonsense), 5);
    check_ends(*state);
}

/* A kernel comes with descriptors, and a pipe has none. */
static void test_no_kernel_is_given(void **state)
{
    struct message_kernel kernel = {.pid = 1};
    uint8_t payload[8];

    say_frame(*state, FRAME_KERNEL, 1, payload,
              (size_t)message_kernel_pack(&kernel, payload, sizeof(payload)), SIZE_MAX);
    check_ends(*state);
}

#define WITH_PIPES(test) cmocka_unit_test_setup_teardown(test, pipes_set_up, pipes_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PIPES(test_any_pieces),
        WITH_PIPES(test_a_reader_that_blocks),
        WITH_PIPES(test_a_new_host_in_the_middle),
        WITH_PIPES(test_a_command_that_ends_the_box),
        WITH_PIPES(test_the_host_hangs_up),
        WITH_PIPES(test_nobody_reads_any_more),
        WITH_PIPES(test_nonsense),
        WITH_PIPES(test_no_kernel_is_given),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, become_reaper, NULL);
}
