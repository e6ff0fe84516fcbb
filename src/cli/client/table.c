/* table.c - the layout of tables; see table.h. */
#include "cli/client/table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/colour.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/sanitize.h"

#define GAP 2

size_t table_width(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width +=
            ((unsigned char)*text & 0xc0) != 0x80; /* continuation bytes of UTF-8 do not count */
    return width;
}

void table_begin(struct table *table, const char *const *headings)
{
    *table = (struct table){0};
    for (; headings[table->columns] && table->columns < TABLE_COLUMNS_MAX; table->columns++) {
        const char *text = headings[table->columns];

        table->is_right[table->columns] = text[0] == '>';
        table_cell(table, text + (text[0] == '>'));
    }
}

void table_cell(struct table *table, const char *text)
{
    CLEANUP(buf_free) struct buf clean = BUF_INIT(SANITIZE_GROWTH * 64 * KIB);
    int result = sanitize_line(text && text[0] ? text : "-", &clean);

    if (result == 0)
        result = strv_push(&table->cells, buf_text(&clean));
    if (result < 0 && table->failure == 0)
        table->failure = result;
}

int table_print(const struct table *table, struct buf *to)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};
    size_t count = strv_length(table->cells);
    int failed = table->failure;

    for (size_t i = 0; i < count; i++)
        widths[i % table->columns] = MAX(widths[i % table->columns], table_width(table->cells[i]));
    for (size_t i = 0; i < count && failed == 0; i++) {
        size_t column = i % table->columns;
        size_t padding = widths[column] - table_width(table->cells[i]);
        bool is_last = column + 1 == table->columns;

        if (table->is_right[column])
            failed |= buf_printf(to, "%*s", (int)padding, "");
        failed |= buf_append_text(to, table->cells[i]);
        if (is_last)
            failed |= buf_append_text(to, "\n");
        else
            failed |=
                buf_printf(to, "%*s", (int)(table->is_right[column] ? GAP : padding + GAP), "");
    }
    return failed < 0 ? failed : 0;
}

void table_free(struct table *table)
{
    strv_free(table->cells);
    *table = (struct table){0};
}

/* The first line in the colour of headings. */
static int print_with_heading(const struct buf *text)
{
    CLEANUP(buf_free) struct buf coloured = BUF_INIT(LIMIT_REPLY_JSON + 64);
    const char *begin = colour_begin(STDOUT_FILENO, COLOUR_HEADING);
    size_t length = strcspn(buf_text(text), "\n");

    if (!begin[0] || buf_printf(&coloured, "%s%.*s%s%s", begin, (int)length, buf_text(text),
                                colour_end(STDOUT_FILENO), buf_text(text) + length) < 0)
        return print_text(text);
    return print_text(&coloured);
}

int table_show(const struct table *table)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_REPLY_JSON);

    if (table_print(table, &text) < 0) {
        message_print("out of memory printing the table");
        return STATUS_BAD_INPUT;
    }
    return print_with_heading(&text);
}
