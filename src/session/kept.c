/*
 * kept.c - the records and the output of ended commands that a session keeps, in memory and on
 * disk; the oldest without a reader are dropped first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "session/session_private.h"

uint64_t execution_kept(const struct execution *execution)
{
    uint64_t bytes = 0;

    for (int i = 0; i < BOX_STREAMS; i++) {
        const struct spool *spool = &execution->out[i];

        if (execution->is_in_row[i] || execution->early[i].length > 0)
            continue; /* short, and deleted with its row */
        bytes += spool->length - spool->first + MIN(spool->head, spool->first);
    }
    return bytes;
}

uint64_t execution_stored(const struct execution *execution)
{
    uint64_t bytes = execution_kept(execution);

    for (int i = 0; i < BOX_STREAMS; i++)
        if (execution->is_in_row[i] || execution->early[i].length > 0)
            bytes += execution->out[i].length;
    return bytes;
}

char *text_copy(const char *text, size_t length)
{
    char *copy = malloc(length + 1);

    if (copy)
        memcpy(copy, text, length);
    return copy;
}

json_t *execution_words(const struct execution *execution)
{
    const struct session *session = execution->session;
    CLEANUP(freep) char *text = NULL;
    json_t *words;

    if (execution->words)
        return json_incref(execution->words);
    if (!execution->argv)
        text = index_read_argv(session->manager->spec.index, session->id, execution->number);
    words = json_loads(execution->argv ? execution->argv : text ? text : "", 0, NULL);
    return words ? words : json_array();
}

void execution_forget(struct execution *execution)
{
    if (execution->users > 0)
        return;
    output_forget(execution);
    json_decref(ptr_take(&execution->words));
    if (execution->argv && strlen(execution->argv) > LIMIT_EXECUTION_WORDS) {
        free(execution->argv);
        execution->argv = NULL;
    }
}

/* Its output is no longer on disk; false: there was none. */
static bool drop_output(struct execution *execution)
{
    const struct session *session = execution->session;
    CLEANUP(fd_closep) int folder_fd = -1;
    bool is_in_row = false;

    if (execution_stored(execution) == 0)
        return false;
    folder_fd = logs_folder(execution->session, false);
    execution->session->spooled -= MIN(execution_kept(execution), execution->session->spooled);
    for (int i = 0; i < BOX_STREAMS; i++) {
        char name[32];

        bool has_file = !execution->is_in_row[i] && execution->early[i].length == 0;

        if (execution->out[i].length == 0)
            continue;
        is_in_row |= execution->is_in_row[i];
        execution->is_in_row[i] = false;
        buf_free(&execution->early[i]);
        execution->out[i].first = execution->out[i].length;
        execution->out[i].head = 0;
        if (!has_file)
            continue;
        output_name(execution, i, name);
        if (folder_fd >= 0)
            spool_remove(folder_fd, name);
    }
    if (is_in_row)
        index_drop_output(session->manager->spec.index, session->id, execution->number, NULL);
    usage_log_over(execution);
    return true;
}

/*
 * The oldest ended execution without users that has output on disk (has_output) or any (not
 * has_output).
 */
static struct execution *oldest(struct session *session, bool has_output)
{
    struct execution *at = session->oldest;

    while (at &&
           (!execution_has_ended(at) || at->users > 0 || (has_output && execution_stored(at) == 0)))
        at = at->previous;
    return at;
}

void executions_drop_output(struct session *session)
{
    struct execution *execution;

    while (session->spooled > LIMIT_SESSION_SPOOLS && (execution = oldest(session, true)))
        drop_output(execution);
}

bool executions_drop_oldest(struct session *session)
{
    struct execution *execution = oldest(session, true);

    if (execution)
        drop_output(execution);
    return execution != NULL;
}

void executions_age(struct session *session, uint64_t before_ms, unsigned *left)
{
    for (struct execution *at = session->oldest; at && *left; at = at->previous)
        if (execution_has_ended(at) && at->users == 0 && at->ended_ms < before_ms)
            *left -= drop_output(at);
}

void executions_trim(struct session *session, unsigned keep)
{
    struct execution *execution;

    while (!session->pinned && session->execution_count > keep &&
           (execution = oldest(session, false))) {
        if (session->state < SESSION_ENDING)
            drop_output(execution); /* else the session's folder is removed as a whole */
        execution_free(execution);
    }
}
