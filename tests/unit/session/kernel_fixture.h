/*
 * kernel_fixture.h - an engine_fixture whose sessions have kernels: a small driver in Python, and a
 * provider that gives kernels of its own, as one with zygotes does.
 *
 * The driver runs a cell as Python source in one namespace, where event(text) writes a line of
 * events. A kernel that is given is a child of the test, which tells its status when it is asked to
 * (fixture_reap()), not when it dies.
 */
#ifndef BAILEY_TESTS_KERNEL_FIXTURE_H
#define BAILEY_TESTS_KERNEL_FIXTURE_H

#include "engine_fixture.h"

#include "sys/packet.h"
#include "wire/frame.h"
#include "wire/message.h"

static const char driver_text[] =
    "import os, sys\n"
    "take, give = os.fdopen(os.dup(3), 'rb'), os.fdopen(os.dup(3), 'wb', 0)\n"
    "names = {'event': lambda text: give.write(text.encode() + b'\\n'), 'cells': 0}\n"
    "while True:\n"
    "    try:\n"
    "        head = take.readline().split()\n"
    "    except KeyboardInterrupt:\n"
    "        continue\n"
    "    if not head:\n"
    "        os._exit(0)\n"
    "    code, given, env = [take.read(int(n)) for n in head[3:6]]\n"
    "    names.update(given=given.decode(), env=env.decode().split('\\0'))\n"
    "    names['cells'] += 1\n"
    "    status = 0\n"
    "    try:\n"
    "        exec(compile(code, 'cell', 'exec'), names)\n"
    "    except SystemExit as end:\n"
    "        status = end.code\n"
    "    except BaseException as error:\n"
    "        "
    "give.write(('{\"type\":\"error\",\"name\":\"%s\",\"value\":\"\",\"traceback\":\"\"}\\n'\n"
    "                    % type(error).__name__).encode())\n"
    "        status = 1\n"
    "    sys.stdout.flush()\n"
    "    if b's' in head[2]:\n"
    "        os._exit(status)\n"
    "    give.write(b'end %s %d\\n' % (head[1], status))\n";

/* What the provider was asked for kernels. */
struct given_kernel {
    pid_t pid;
    uint32_t number, id;
};

static struct {
    bool refuses; /* -EAGAIN: start it cold */
    unsigned asked;
    struct given_kernel kernels[8];
    unsigned count;
} fixture_zygote;

/* A process with the driver, and the box's warden knows it. */
static inline void fixture_give(struct engine_fixture *fixture, struct fixture_box *box,
                                uint32_t id)
{
    struct message_kernel message;
    uint8_t data[FRAME_HEADER + 8];
    int talk[2], out[2], err[2];
    size_t length;
    struct given_kernel *kernel = &fixture_zygote.kernels[fixture_zygote.count++];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    *kernel = (struct given_kernel){.number = box->number, .id = id, .pid = fork()};
    if (kernel->pid == 0) {
        setpgid(0, 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        dup2(talk[1], 3);
        execl("/usr/bin/python3", "python3", fixture->languages[1].driver, NULL);
        _exit(127);
    }
    message.pid = kernel->pid;
    length = (size_t)message_kernel_pack(&message, data + FRAME_HEADER, 8);
    frame_header(data, FRAME_KERNEL, id, length);
    assert_int_equal(packet_send(box->channel, data, FRAME_HEADER + length,
                                 (int[]){talk[0], out[0], err[0]}, 3, 0),
                     0);
    for (int i = 0; i < 2; i++) {
        close(talk[i]);
        close(out[i]);
        close(err[i]);
    }
}

static inline void fixture_kernel(struct provider *provider, uint32_t number, uint32_t id, int tier,
                                  void (*done)(void *ctx, int num), void *ctx)
{
    struct engine_fixture *fixture = (struct engine_fixture *)provider;

    (void)tier;
    fixture_zygote.asked++;
    if (fixture_zygote.refuses) {
        done(ctx, -EAGAIN);
        return;
    }
    fixture_give(fixture, fixture_find(fixture, number), id);
    done(ctx, 0);
}

/* For fixture->fill_made: boxes have a kernel from the beginning, as those of a pool. */
static inline void fixture_fill_made(struct engine_fixture *fixture, struct fixture_box *box,
                                     struct made *made)
{
    made->kernel = 1;
    made->is_pooled = true;
    fixture_give(fixture, box, made->kernel);
}

static inline void fixture_forget(struct provider *provider, const void *ctx)
{
    (void)provider;
    (void)ctx;
}

/* The last one that was given has ended: its status goes to the engine, if that is wanted. */
static inline void fixture_reap(struct engine_fixture *fixture, bool tells)
{
    struct given_kernel *kernel = &fixture_zygote.kernels[fixture_zygote.count - 1];
    struct kernel_end end = {.number = kernel->number, .kernel = kernel->id};

    assert_int_equal(waitpid(kernel->pid, &end.status, 0), kernel->pid);
    if (tells)
        session_manager_kernel_ended(fixture->manager, &end);
}

static inline int kernel_fixture_open(void **state)
{
    static char path[512];
    struct engine_fixture *fixture;

    memset(&fixture_zygote, 0, sizeof(fixture_zygote));
    fixture_open(state);
    fixture = *state;
    scratch_write(&fixture->scratch, "driver.py", driver_text);
    snprintf(path, sizeof(path), "%s", scratch_path(&fixture->scratch, "driver.py"));
    fixture->languages[1].driver = path;
    fixture->languages[3].driver = path;
    fixture->config.is_warm = false;
    return 0;
}

#define WITH_KERNELS(test) cmocka_unit_test_setup_teardown(test, kernel_fixture_open, fixture_close)

/* ---- what tests do ---- */

static inline struct execution *cell_start(struct session *session, const char *context,
                                           const char *code, uint64_t timeout_ms)
{
    struct cell_request request = {
        .code = code, .code_length = strlen(code), .timeout_ms = timeout_ms};
    struct execution *execution = NULL;
    struct error err = {0};

    if (session_find_context(session, context, NULL, &request.context, &err) < 0 ||
        session_cell(session, &request, &execution, &err) < 0)
        fail_msg("%s", err.text);
    return execution;
}

static inline struct execution *cell_ran(struct engine_fixture *fixture, struct session *session,
                                         const char *code)
{
    struct execution *execution = cell_start(session, NULL, code, 0);

    UNTIL(fixture, execution_has_ended(execution));
    return execution;
}

/* Its meta, or what it said, has this string in it. */
static inline void check_member(json_t *json, const char *name, const char *expected)
{
    json_t *value = json_object_get(json, name);

    if (expected && !str_equal(json_string_value(value), expected))
        fail_msg("%s is not %s in %s", name, expected, json_dumps(json, JSON_COMPACT));
    if (!expected && value && !json_is_null(value))
        fail_msg("%s is there: %s", name, json_dumps(json, JSON_COMPACT));
    json_decref(json);
}

static inline void check_context(struct session *session, const char *name, const char *member,
                                 const char *expected)
{
    struct context *context;
    struct error err = {0};

    assert_int_equal(session_find_context(session, name, NULL, &context, &err), 0);
    check_member(context_json(context), member, expected);
}

#endif
