/*
 * line_edit.c - one line that is edited with keys; see line_edit.h.
 *
 * Theory of operation. A key is a control character, a sequence that begins with ESC (ECMA-48: CSI
 * is `ESC [`, then parameters, then a byte of @ to ~; SS3 is `ESC O` and one byte), or a character
 * of UTF-8. Bytes of an unfinished one wait in `sequence`. The line is shown on one row and scrolls
 * sideways, so that nothing has to be known about how a terminal wraps.
 */
#include "cli/client/line_edit.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define KEY(letter) ((letter)&0x1f) /* Ctrl and the letter */
#define ESC '\033'
#define DELETE 0x7f
#define QUERY_MAX 256

/* ---- characters ---- */

static bool is_inner(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static size_t before(const struct line_edit *edit, size_t at)
{
    const char *text = buf_text(&edit->line);

    while (at > 0 && is_inner(text[--at])) {
    }
    return at;
}

static size_t after(const struct line_edit *edit, size_t at)
{
    const char *text = buf_text(&edit->line);

    if (at < edit->line.length)
        at++;
    while (at < edit->line.length && is_inner(text[at]))
        at++;
    return at;
}

static bool is_word(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || byte == '_' || (byte & 0x80);
}

static size_t word_before(const struct line_edit *edit)
{
    const char *text = buf_text(&edit->line);
    size_t at = edit->at;

    while (at > 0 && !is_word(text[at - 1]))
        at--;
    while (at > 0 && is_word(text[at - 1]))
        at--;
    return at;
}

static size_t word_after(const struct line_edit *edit)
{
    const char *text = buf_text(&edit->line);
    size_t at = edit->at;

    while (at < edit->line.length && !is_word(text[at]))
        at++;
    while (at < edit->line.length && is_word(text[at]))
        at++;
    return at;
}

/* One character of a text that was checked when it was typed. */
static uint32_t decode(const char *text, size_t length, size_t *ret_bytes)
{
    unsigned char first = (unsigned char)text[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t point = bytes == 1 ? first : first & (0xffu >> (bytes + 1));

    if (bytes > length)
        bytes = length;
    for (size_t i = 1; i < bytes; i++)
        point = point << 6 | ((unsigned char)text[i] & 0x3f);
    *ret_bytes = bytes;
    return point;
}

/* As wcwidth(3), which needs a locale; blocks of East Asian and combining characters (UAX #11). */
static size_t width_of(uint32_t point)
{
    static const struct {
        uint32_t from, to;
        size_t width;
    } blocks[] = {
        {0x0300, 0x036f, 0},   {0x200b, 0x200f, 0},   {0xfe00, 0xfe0f, 0}, {0x1100, 0x115f, 2},
        {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},   {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},
        {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2},
        {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
    };

    for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
        if (point >= blocks[i].from && point <= blocks[i].to)
            return blocks[i].width;
    }
    return 1;
}

size_t line_edit_width(const char *text, size_t length)
{
    size_t width = 0, bytes;

    for (size_t at = 0; at < length; at += bytes)
        width += width_of(decode(text + at, length - at, &bytes));
    return width;
}

/* ---- changes ---- */

static enum line_event insert(struct line_edit *edit, const char *text, size_t length)
{
    size_t behind = edit->line.length - edit->at;

    if (buf_append(&edit->line, text, length) < 0)
        return LINE_TOO_LONG;
    if (behind > 0) {
        memmove(edit->line.data + edit->at + length, edit->line.data + edit->at, behind);
        memcpy(edit->line.data + edit->at, text, length);
    }
    edit->at += length;
    return LINE_MORE;
}

static void erase(struct line_edit *edit, size_t from, size_t to)
{
    if (from == to)
        return;
    memmove(edit->line.data + from, edit->line.data + to, edit->line.length - to);
    edit->line.length -= to - from;
    edit->line.data[edit->line.length] = '\0';
    edit->at = from;
}

static void kill_text(struct line_edit *edit, size_t from, size_t to)
{
    if (from == to)
        return;
    buf_clear(&edit->killed);
    buf_append(&edit->killed, buf_text(&edit->line) + from, to - from);
    erase(edit, from, to);
}

static void replace(struct line_edit *edit, const char *text, size_t length)
{
    buf_clear(&edit->line);
    edit->at = 0;
    insert(edit, text, length);
}

/* ---- the history ---- */

static void choose(struct line_edit *edit, size_t index)
{
    size_t count = edit->history->count;

    if (index > count || index == edit->chosen)
        return;
    if (edit->chosen == count) {
        buf_clear(&edit->draft);
        buf_append(&edit->draft, buf_text(&edit->line), edit->line.length);
    }
    edit->chosen = index;
    if (index == count)
        replace(edit, buf_text(&edit->draft), edit->draft.length);
    else
        replace(edit, edit->history->lines[index], strlen(edit->history->lines[index]));
}

/* Shows the newest line before `from` that has the query; else everything stays. */
static void search(struct line_edit *edit, size_t from)
{
    while (edit->query.length > 0 && from-- > 0) {
        const char *line = edit->history->lines[from],
                   *found = strstr(line, buf_text(&edit->query));

        if (!found)
            continue;
        choose(edit, from);
        edit->at = (size_t)(found - line);
        return;
    }
}

/* False: the key ends the search and has its own meaning. */
static bool search_key(struct line_edit *edit, char byte)
{
    if (byte == KEY('R')) {
        search(edit, edit->chosen);
    } else if (byte == KEY('G')) {
        edit->is_searching = false;
        choose(edit, edit->history->count);
    } else if (byte == KEY('H') || byte == DELETE) {
        while (edit->query.length > 0 && is_inner(edit->query.data[edit->query.length - 1]))
            edit->query.length--;
        edit->query.length -= edit->query.length > 0;
        if (edit->query.data)
            edit->query.data[edit->query.length] = '\0';
        search(edit, edit->history->count);
    } else if ((unsigned char)byte >= ' ') {
        buf_append(&edit->query, &byte, 1); /* a query that is too long stays as it is */
        search(edit, MIN(edit->chosen + 1, edit->history->count));
    } else {
        edit->is_searching = false;
        return false;
    }
    return true;
}

/* ---- keys ---- */

static void begin_search(struct line_edit *edit)
{
    edit->is_searching = true;
    buf_clear(&edit->query);
}

static enum line_event control_key(struct line_edit *edit, char byte)
{
    size_t length = edit->line.length;

    switch (byte) {
    case '\r':
    case '\n':
        return LINE_DONE;
    case '\t':
        return edit->is_pasting ? insert(edit, "\t", 1) : insert(edit, "    ", 4);
    case KEY('A'):
        edit->at = 0;
        break;
    case KEY('B'):
        edit->at = before(edit, edit->at);
        break;
    case KEY('D'):
        if (length == 0)
            return LINE_END;
        erase(edit, edit->at, after(edit, edit->at));
        break;
    case KEY('E'):
        edit->at = length;
        break;
    case KEY('F'):
        edit->at = after(edit, edit->at);
        break;
    case KEY('H'):
    case DELETE:
        erase(edit, before(edit, edit->at), edit->at);
        break;
    case KEY('K'):
        kill_text(edit, edit->at, length);
        break;
    case KEY('N'):
        choose(edit, edit->chosen + 1);
        break;
    case KEY('P'):
        choose(edit, edit->chosen - 1);
        break;
    case KEY('R'):
        begin_search(edit);
        break;
    case KEY('U'):
        kill_text(edit, 0, edit->at);
        break;
    case KEY('W'):
        kill_text(edit, word_before(edit), edit->at);
        break;
    case KEY('Y'):
        return insert(edit, buf_text(&edit->killed), edit->killed.length);
    default:
        break; /* it means nothing here */
    }
    return LINE_MORE;
}

struct key {
    const char *sequence; /* behind ESC */
    char control;         /* the control key that does the same; 0: `change` */
    void (*change)(struct line_edit *edit);
};

static void to_word_before(struct line_edit *edit)
{
    edit->at = word_before(edit);
}

static void to_word_after(struct line_edit *edit)
{
    edit->at = word_after(edit);
}

static void kill_word(struct line_edit *edit)
{
    size_t at = edit->at;

    kill_text(edit, at, word_after(edit));
}

static void erase_one(struct line_edit *edit)
{
    erase(edit, edit->at, after(edit, edit->at));
}

static void begin_paste(struct line_edit *edit)
{
    edit->is_pasting = true;
}

static void end_paste(struct line_edit *edit)
{
    edit->is_pasting = false;
}

/* What xterm, the Linux console and their descendants send (console_codes(4), XTerm ctlseqs). */
static const struct key keys[] = {
    {"[A", KEY('P'), NULL},       {"OA", KEY('P'), NULL},    {"[B", KEY('N'), NULL},
    {"OB", KEY('N'), NULL},       {"[C", KEY('F'), NULL},    {"OC", KEY('F'), NULL},
    {"[D", KEY('B'), NULL},       {"OD", KEY('B'), NULL},    {"[H", KEY('A'), NULL},
    {"OH", KEY('A'), NULL},       {"[1~", KEY('A'), NULL},   {"[7~", KEY('A'), NULL},
    {"[F", KEY('E'), NULL},       {"OF", KEY('E'), NULL},    {"[4~", KEY('E'), NULL},
    {"[8~", KEY('E'), NULL},      {"[3~", 0, erase_one},     {"[1;5C", 0, to_word_after},
    {"[1;3C", 0, to_word_after},  {"f", 0, to_word_after},   {"[1;5D", 0, to_word_before},
    {"[1;3D", 0, to_word_before}, {"b", 0, to_word_before},  {"d", 0, kill_word},
    {"\x7f", KEY('W'), NULL},     {"[200~", 0, begin_paste}, {"[201~", 0, end_paste},
};

static enum line_event escape_key(struct line_edit *edit, const char *sequence)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (!str_equal(keys[i].sequence, sequence))
            continue;
        if (keys[i].control)
            return control_key(edit, keys[i].control);
        keys[i].change(edit);
        return LINE_MORE;
    }
    return LINE_MORE; /* a key that means nothing here */
}

/* The sequence has its last byte. */
static bool is_whole_escape(const char *sequence, size_t length)
{
    char last = sequence[length - 1];

    if (length < 2)
        return false;
    if (sequence[1] == 'O')
        return length == 3;
    if (sequence[1] == '[')
        return length > 2 && last >= '@' && last <= '~';
    return true;
}

static enum line_event take_escape(struct line_edit *edit, char byte)
{
    /* Of a sequence that is too long only the end matters: it is no key of ours. */
    size_t last = sizeof(edit->sequence) - 2;

    if (edit->sequence_length > last)
        edit->sequence_length = last;
    edit->sequence[edit->sequence_length++] = byte;
    if (!is_whole_escape(edit->sequence, edit->sequence_length))
        return LINE_MORE;
    edit->sequence[edit->sequence_length] = '\0';
    edit->sequence_length = 0;
    edit->is_searching = false;
    return escape_key(edit, edit->sequence + 1);
}

/* A byte of a character: what does not become one is left out. */
static enum line_event take_text(struct line_edit *edit, char byte)
{
    unsigned char first = (unsigned char)edit->sequence[0];
    size_t wanted;

    if (edit->sequence_length == 0 && !(byte & 0x80))
        return insert(edit, &byte, 1);
    if (edit->sequence_length == 0 && ((unsigned char)byte < 0xc2 || (unsigned char)byte > 0xf4))
        return LINE_MORE;
    if (edit->sequence_length > 0 && !is_inner(byte)) {
        edit->sequence_length = 0;
        return line_edit_take(edit, byte);
    }
    edit->sequence[edit->sequence_length++] = byte;
    first = (unsigned char)edit->sequence[0];
    wanted = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (edit->sequence_length < wanted)
        return LINE_MORE;
    edit->sequence_length = 0;
    return insert(edit, edit->sequence, wanted);
}

enum line_event line_edit_take(struct line_edit *edit, char byte)
{
    if (byte == ESC || (edit->sequence_length > 0 && edit->sequence[0] == ESC)) {
        if (byte == ESC)
            edit->sequence_length = 0;
        return take_escape(edit, byte);
    }
    if (edit->is_searching && search_key(edit, byte))
        return LINE_MORE;
    if ((unsigned char)byte >= ' ' && byte != DELETE)
        return take_text(edit, byte);
    edit->sequence_length = 0;
    if (edit->is_pasting && byte != '\r' && byte != '\n' && byte != '\t')
        return LINE_MORE; /* pasted text has no keys */
    return control_key(edit, byte);
}

/* ---- what is shown ---- */

/* The part of the line that is shown: the cursor is in it. */
static void window(const struct line_edit *edit, size_t columns, size_t *ret_from, size_t *ret_to)
{
    const char *text = buf_text(&edit->line);
    size_t from = 0, to, width = line_edit_width(text, edit->at);

    while (width >= columns && from < edit->at) {
        size_t next = after(edit, from);

        width -= line_edit_width(text + from, next - from);
        from = next;
    }
    for (to = edit->at; to < edit->line.length;) {
        size_t next = after(edit, to);

        width += line_edit_width(text + to, next - to);
        if (width >= columns)
            break;
        to = next;
    }
    *ret_from = from;
    *ret_to = to;
}

/* Tabs that were pasted are shown as a blank: their width depends on the column. */
static int append_shown(struct buf *out, const char *text, size_t length)
{
    int r = 0;

    for (size_t i = 0; i < length && r == 0; i++)
        r = buf_append(out, text[i] == '\t' ? " " : text + i, 1);
    return r;
}

int line_edit_show(const struct line_edit *edit, const char *prompt, const char *begin,
                   const char *end, size_t columns, struct buf *out)
{
    char searched[QUERY_MAX + 16];
    const char *text = buf_text(&edit->line);
    size_t used, from, to, right;
    int r;

    if (edit->is_searching) {
        str_format(searched, sizeof(searched), "(search '%s') ", buf_text(&edit->query));
        prompt = searched;
    }
    used = line_edit_width(prompt, strlen(prompt));
    window(edit, columns > used + 8 ? columns - used : 8, &from, &to);
    r = buf_printf(out, "\r%s%s%s", begin, prompt, end);
    if (r == 0)
        r = append_shown(out, text + from, to - from);
    if (r == 0)
        r = buf_append_text(out, "\033[K");
    right = line_edit_width(text + edit->at, to - edit->at);
    if (r == 0 && right > 0)
        r = buf_printf(out, "\033[%zuD", right);
    return r;
}

/* ---- its life ---- */

void line_edit_init(struct line_edit *edit, const struct history *history, size_t maximum)
{
    *edit = (struct line_edit){.line = {.maximum = maximum},
                               .history = history,
                               .chosen = history->count,
                               .draft = {.maximum = maximum},
                               .query = {.maximum = QUERY_MAX},
                               .killed = {.maximum = maximum}};
}

void line_edit_clear(struct line_edit *edit)
{
    buf_clear(&edit->line);
    buf_clear(&edit->draft);
    edit->at = 0;
    edit->is_searching = false;
    edit->chosen = edit->history->count;
}

void line_edit_free(struct line_edit *edit)
{
    buf_free(&edit->line);
    buf_free(&edit->draft);
    buf_free(&edit->query);
    buf_free(&edit->killed);
}
