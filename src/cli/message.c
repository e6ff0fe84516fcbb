/* message.c - bailey's own messages on the two standard streams. */
#include "cli/message.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/colour.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/sanitize.h"
#include "model/text.h"

#define MESSAGE_TEXT_MAX 2048

static void print_line(enum colour colour, const char *text)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(SANITIZE_GROWTH * MESSAGE_TEXT_MAX + 64);
    struct sanitizer sanitizer = {0};

    /* There is no other place to report that standard error cannot be written. */
    buf_printf(&line, "%sbailey:%s ", colour_begin(STDERR_FILENO, colour),
               colour_end(STDERR_FILENO));
    sanitize_feed(&sanitizer, text, strlen(text), &line);
    sanitize_finish(&sanitizer, &line);
    buf_append_text(&line, "\n");
    stream_write(STDERR_FILENO, buf_text(&line), line.length, -1);
}

void message_print(const char *format, ...)
{
    char text[MESSAGE_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    print_line(COLOUR_NOTE, text);
}

static const struct step_row {
    const char *code;
    const char *step;
} step_table[] = {
    {ERROR_REFUSED, "or accept less with --isolation LEVEL"}, /* its text names the doctor */
    {ERROR_BOX_FAILED, "run 'bailey doctor' to see what this kernel and this user can have"},
    {ERROR_BOX_LOST, "run it again; 'bailey doctor' shows whether boxes work here"},
    {ERROR_COMMAND_NOT_FOUND,
     "a box has the programs of this machine's /usr, or of --root DIR; --file copies others in"},
    {ERROR_NOT_EXECUTABLE, "make it executable, or name an interpreter in front of it"},
};

const char *next_step(const char *code)
{
    for (size_t i = 0; code && i < ARRAY_SIZE(step_table); i++)
        if (strcmp(code, step_table[i].code) == 0)
            return step_table[i].step;
    return NULL;
}

void message_error(const struct error *err)
{
    const char *step = next_step(err->code);
    char text[MESSAGE_TEXT_MAX];

    snprintf(text, sizeof(text), "%s%s%s", err->text[0] ? err->text : strerror(-err->num),
             step ? "; " : "", step ? step : "");
    print_line(COLOUR_ERROR, text);
}

int message_bad_input(const struct error *err)
{
    print_line(COLOUR_ERROR, err->text[0] ? err->text : strerror(-err->num));
    return STATUS_BAD_INPUT;
}

static int write_status(int result)
{
    if (result == -EPIPE)
        return 128 + SIGPIPE;
    if (result < 0) {
        message_print("writing standard output: %s", strerror(-result));
        return STATUS_BAD_INPUT;
    }
    return 0;
}

int print_text(const struct buf *text)
{
    return write_status(stream_write(STDOUT_FILENO, buf_text(text), text->length, -1));
}

int print_guest_text(const struct buf *text)
{
    struct output output;
    int result;

    output_init(&output, false, -1);
    result = output_write(&output, STDOUT_FILENO, buf_text(text), text->length);
    output_finish(&output);
    return write_status(result);
}

int print_json(json_t *json)
{
    /* A terminal gets ASCII: the same document, and nothing of a guest's that could steer it. */
    size_t flags =
        JSON_COMPACT | JSON_REAL_PRECISION(15) | (isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII : 0);
    CLEANUP(buf_free) struct buf text = BUF_INIT(SIZE_MAX / 2); /* a result has its own limits */
    bool is_whole =
        json && text_of_json(json, flags, &text) == 0 && buf_append_text(&text, "\n") == 0;

    json_decref(json);
    if (is_whole)
        return print_text(&text);
    message_print("out of memory printing the result");
    return STATUS_BAD_INPUT;
}
