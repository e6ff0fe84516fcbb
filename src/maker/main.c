/*
 * main.c - the program that libbailey carries: makes one box, runs one thing in it, ends it.
 *
 * libbailey executes it from a sealed memfd for a box that is made in process (docs/design,
 * 2026-11-19). It has one thread and none of its caller's memory, so that the box, whose first
 * process is a fork of this one, has none either. What it inherits is the working folder, the
 * environment, the ids and standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "boxes/launch.h"
#include "http/sse.h"
#include "maker/maker.h"
#include "maker/request.h"
#include "model/result.h"
#include "model/text.h"
#include "oneshot/oneshot.h"

#define EVENT_MAX (64 * MIB)

/* One event on the socket, which waits for its reader. */
static int say(const char *event, json_t *data)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(EVENT_MAX);
    CLEANUP(buf_free) struct buf line = BUF_INIT(EVENT_MAX);
    int r = data ? text_of_json(data, JSON_COMPACT | JSON_REAL_PRECISION(15), &text) : -ENOMEM;

    json_decref(data);
    if (r == 0)
        r = sse_write(&line, NULL, event, buf_text(&text), text.length);
    return r < 0 ? r : fd_write_all(MAKER_FD, buf_text(&line), line.length);
}

static int on_output(void *ctx, int stream, const void *data, size_t length)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);

    (void)ctx;
    if (base64_encode(data, length, &text) < 0)
        return -ENOMEM;
    return say(stream == 1 ? "stdout" : "stderr",
               json_pack("{s:s, s:s}", "encoding", "base64", "data", buf_text(&text)));
}

static int say_result(const struct result *result)
{
    return say("exit", result_to_json(result)) < 0 ? 1 : 0;
}

/* What was refused has a result too, of a configuration that may be what is wrong. */
static int refuse(const struct config *config, const struct error *err)
{
    CLEANUP(config_free) struct config defaults = {0};
    struct error ignored = {0};
    struct result result;
    int status;

    if (!config->type &&
        config_load_text(&defaults, "", 0, "", (char *const[]){NULL}, &ignored) == 0)
        config = &defaults;
    result_init(&result, &config->limits);
    result.runtime = config->type;
    id_make(result.execution_id, "exec");
    result.exit_code = 1;
    result.error = *err;
    status = say_result(&result);
    result_free(&result);
    return status;
}

static int run(struct maker_request *request)
{
    const struct oneshot_sink sink = {.write = on_output, .fd = {MAKER_FD, MAKER_FD}};
    struct oneshot_extra extra = {0};
    struct result result;
    int status;

    log_set_level(request->config.log_level);
    request->shot.sink = &sink;
    request->shot.cancel_fd = MAKER_FD; /* readable: its other end was shut down */
    result_init(&result, &request->config.limits);
    oneshot_run(&request->shot, &result, &extra);
    status = say_result(&result);
    oneshot_extra_free(&extra);
    result_free(&result);
    return status;
}

/* Masks and ignored signals are inherited; a library's caller may have any. */
static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < SIGRTMIN; number++)
        signal(number, SIG_DFL); /* refused for SIGKILL and SIGSTOP, which have it anyway */
    signal(SIGPIPE, SIG_IGN);    /* a reader that left is an errno here, not the end */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
    struct maker_request request = {.stdin_fd = -1};
    struct error err = {0};
    json_t *json = NULL;
    int status;

    reset_signals();
    launch_remember_arguments(argc, argv, environ); /* for the warden, which wipes its copy */
    fcntl(MAKER_FD, F_SETFD, FD_CLOEXEC);
    if (maker_request_read(MAKER_FD, &json, &err) < 0) {
        json_decref(json);
        if (err.code != ERROR_CANCELLED)
            log_error("%s", err.text);
        return 2;
    }
    if (maker_request_load(json, environ, &request, &err) < 0)
        status = refuse(&request.config, &err);
    else
        status = run(&request);
    maker_request_free(&request);
    return status;
}
