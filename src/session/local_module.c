/*
 * local_module.c - finds out whether a module is a file of the session itself; see run_private.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/run_private.h"

#define PLACES 2

struct local_module {
    struct box *box;
    uint32_t op[PLACES];
    unsigned pending;
    bool is_there;
    void (*done)(void *ctx, bool is_there);
    void *ctx;
};

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct local_module *look = ctx;

    (void)entry;
    look->is_there = true;
}

static void on_done(void *ctx, const struct error *err)
{
    struct local_module *look = ctx;
    void (*done)(void *, bool) = look->done;
    void *owner = look->ctx;
    bool is_there;

    /* A file that cannot be looked at (no permission, a link) counts as existing. A box that
     * ends with its program had only the files that the program wrote. */
    look->is_there |= err->num < 0 && err->num != -ENOENT && err->code != ERROR_BOX_LOST;
    is_there = look->is_there;
    if (--look->pending > 0)
        return;
    free(look);
    done(owner, is_there);
}

static const struct list_events events = {.entry = on_entry, .done = on_done};

int local_module_look(struct box *box, const char *module, void (*done)(void *ctx, bool is_there),
                      void *ctx, struct local_module **ret, struct error *err)
{
    static const char *const endings[PLACES] = {"", ".py"};
    struct local_module *look = calloc(1, sizeof(*look));
    int r = 0;

    if (!look)
        return error_memory(err);
    *look = (struct local_module){.box = box, .done = done, .ctx = ctx};
    for (int i = 0; i < PLACES && r == 0; i++) {
        char path[LIMIT_MODULE + 32];

        str_format(path, sizeof(path), "/workspace/%.*s%s", (int)strcspn(module, "."), module,
                   endings[i]);
        r = box_stat(box, path, &events, look, &look->op[i], err);
        look->pending += r == 0;
    }
    if (r < 0) {
        local_module_leave(look);
        return r;
    }
    *ret = look;
    return 0;
}

void local_module_leave(struct local_module *look)
{
    for (int i = 0; look && i < PLACES; i++) {
        if (look->op[i])
            box_cancel(look->box, look->op[i]);
    }
    free(look);
}

void local_module_error(const char *module, struct error *err)
{
    error_set(err, -ENOENT, ERROR_INSTALL_FAILED,
              "no package is installed: '%.*s' is your own module in /workspace",
              (int)strcspn(module, "."), module);
}
