/* chat_row.c - rows of what was said; see chat_row.h. */
#include "store/chat_row.h"

#include <errno.h>
#include <string.h>

#include "store/index_private.h"

int chat_row_put(struct index *index, const char *session, const char *messages, struct error *err)
{
    struct place place = index_place(index, PUT_CHAT);

    index_put_text(&place, session);
    index_put_text(&place, messages);
    return index_run(&place, err);
}

static void on_row(struct place *place, void *ctx)
{
    const char *text = index_take_text(place);
    char **ret = ctx;

    *ret = text ? strdup(text) : NULL;
    if (!*ret)
        place->code = SQLITE_NOMEM;
}

int chat_row_get(struct index *index, const char *session, char **ret, struct error *err)
{
    struct place place = index_place(index, GET_CHAT);

    *ret = NULL;
    index_put_text(&place, session);
    return index_each_row(&place, on_row, ret, err);
}

int chat_row_drop(struct index *index, const char *session, struct error *err)
{
    struct place place = index_place(index, DROP_CHAT);

    index_put_text(&place, session);
    return index_run(&place, err);
}
