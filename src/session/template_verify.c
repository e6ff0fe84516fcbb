/*
 * template_verify.c - hashes a layer again from beginning to end; see template.h.
 *
 * That takes seconds, so it runs in its own thread, which shares with the loop only a pipe that it
 * closes when it is done and the result that it wrote before. A verification whose caller has left
 * runs to its end and is freed then.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/manifest.h"
#include "base/str.h"
#include "session/layers.h"
#include "session/template.h"

struct template_verify {
    struct session_manager *manager;
    int layers_fd;
    char layer[LAYER_TEXT];
    int pipe[2]; /* the thread has the second end */
    pthread_t thread;
    struct reactor_watch *watch;
    struct error result;
    void (*done)(void *ctx, const struct error *err); /* NULL: the caller left */
    void *ctx;
};

static void *read_all(void *ctx)
{
    struct template_verify *verify = ctx;
    int fd = verify->pipe[1];

    manifest_verify(verify->layers_fd, verify->layer, NULL, NULL, &verify->result);
    close(fd); /* tells the loop that `result` is set; nothing is touched afterwards */
    return NULL;
}

static void verify_free(struct template_verify *verify)
{
    verify->manager->spec.reactor->ops->watch_remove(verify->watch);
    fd_closep(&verify->pipe[0]);
    free(verify);
}

static void on_closed(void *ctx, short events)
{
    struct template_verify *verify = ctx;

    (void)events;
    pthread_join(verify->thread, NULL);
    if (verify->done)
        verify->done(verify->ctx, &verify->result);
    verify_free(verify);
}

void template_verify_cancel(struct template_verify *verify)
{
    verify->done = NULL;
}

static int start(struct template_verify *verify, struct error *err)
{
    sigset_t all, before;
    int r;

    if (pipe2(verify->pipe, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    verify->watch =
        reactor_watch(verify->manager->spec.reactor, verify->pipe[0], POLLIN, on_closed, verify);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals go to the loop's thread */
    r = verify->watch ? pthread_create(&verify->thread, NULL, read_all, verify) : ENOMEM;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        return 0;
    close(verify->pipe[1]);
    return error_set(err, -r, ERROR_ENGINE, "starting a thread: %s", strerror(r));
}

int template_verify(struct session_manager *manager, const char *name,
                    void (*done)(void *ctx, const struct error *err), void *ctx,
                    struct template_verify **ret, struct error *err)
{
    struct template *template = template_find(manager, name);
    struct template_verify *verify;
    CLEANUP(json_decrefpp) json_t *known = NULL;
    int r = template ? 0 : template_json(manager, name, &known, err);

    if (r < 0)
        return r;
    if (!template || !layer_is_there(manager, template->layer))
        return error_set(err, -ENOENT, ERROR_TEMPLATE_NOT_BUILT,
                         "the template '%s' is not built: there is nothing to verify", name);
    verify = calloc(1, sizeof(*verify));
    if (!verify)
        return error_memory(err);
    *verify = (struct template_verify){.manager = manager,
                                       .layers_fd = manager->spec.folders.layers_fd,
                                       .pipe = {-1, -1},
                                       .done = done,
                                       .ctx = ctx};
    str_copy(verify->layer, sizeof(verify->layer), template->layer);
    r = start(verify, err);
    if (r < 0) {
        verify_free(verify);
        return r;
    }
    *ret = verify;
    return 0;
}
