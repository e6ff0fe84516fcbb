/*
 * redact.c - replaces what looks like a secret by "[redacted]"; see artifact.h.
 *
 * One walk over the text, which may be a program, its output, a log or a configuration file;
 * nothing is parsed, because all of them come mixed. At the beginning of each word the walk asks
 * two questions: is this a token of a known shape, and is this a secret-looking name followed by a
 * value? The rest is where a value begins and ends:
 *
 *   api_key = "abc"   "token": 'abc'   os.environ["KEY"] = "abc"   setenv("KEY", "abc")   quoted
 *   API_KEY=abc   ?token=abc&x=1   --password abc                                   a bare word
 *   password: correct horse                             the whole line where the name begins it
 *   auth = ("me", "abc")   key = load("abc")            an expression: its string literals
 *
 * Too much is better than too little, but code has to stay readable: numbers, types, True and None,
 * api_key=api_key and the like are not replaced. The walk never goes back further than a word that
 * it did not replace, which keeps it linear whatever the text is.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "store/artifact.h"
#include "store/redact.h"

#define TYPE_LOOKAHEAD 64    /* how long an annotation ("Optional[str]") may be */
#define SHORT_NUMBER 7       /* max_tokens=100000 is not a secret, token=12345678 may be */
#define CREDENTIAL_MIN 6     /* what a value needs to look like a credential after "key" */
#define LITERAL_PREFIX_MAX 2 /* rb"...", f"..." */
#define EXPRESSION_LINES 50  /* how long an open bracket keeps an expression going */

struct scan {
    const char *text;
    size_t length;
    size_t at;     /* next byte to look at */
    size_t copied; /* everything before is in `out` */
    struct buf *out;
    char ***found; /* strv that gets the values; NULL: not wanted */
    int status;
    char quote;         /* the quote that is open on this line, as far as is known; or 0 */
    bool in_expression; /* after "secret = f(": string literals are replaced */
    int depth, lines;   /* brackets that are open in the expression, lines that it may still have */
    bool is_fresh;      /* only blanks (and "export") so far on this line */
};

enum separator { SEP_NONE, SEP_ASSIGN, SEP_COLON, SEP_COMPARE, SEP_COMMA, SEP_BLANK };

/* A secret-looking name that was found. */
struct name {
    const char *text;
    size_t length;
    enum secrecy secrecy;
    enum separator separator;
    bool is_fresh;
};

/* ---- bytes -------------------------------------------------------------------------------------
 */

static char peek(const struct scan *scan, size_t at)
{
    return at < scan->length ? scan->text[at] : '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static size_t skip_blanks(const struct scan *scan, size_t at)
{
    while (is_blank(peek(scan, at)))
        at++;
    return at;
}

static bool starts_at(const struct scan *scan, size_t at, const char *word)
{
    size_t length = strlen(word);

    return at <= scan->length && length <= scan->length - at &&
           memcmp(scan->text + at, word, length) == 0;
}

/* The end of the line that `at` is on, without its "\r". */
static size_t line_end(const struct scan *scan, size_t at)
{
    const char *newline = memchr(scan->text + at, '\n', scan->length - at);
    size_t end = newline ? (size_t)(newline - scan->text) : scan->length;

    return end > at && scan->text[end - 1] == '\r' ? end - 1 : end;
}

static void emit(struct scan *scan, const char *data, size_t length)
{
    if (scan->status == 0)
        scan->status = buf_append(scan->out, data, length);
}

/* Notes text[from..to), each of its lines for itself: that is how a program prints it. */
static void note(struct scan *scan, size_t from, size_t to)
{
    while (from < to && scan->status == 0 && strv_length(*scan->found) < REDACT_FOUND_MAX) {
        const char *line = scan->text + from;
        const char *end = memchr(line, '\n', to - from);
        size_t length = end ? (size_t)(end - line) : to - from;

        if (length >= REDACT_FOUND_MIN && !memchr(line, '\0', length)) {
            CLEANUP(freep) char *value = strndup(line, length);

            if (!value || strv_push(scan->found, value) < 0)
                scan->status = -ENOMEM;
        }
        from += length + 1;
    }
}

/* Replaces text[from..to) except its newlines, and continues after it. */
static void replace(struct scan *scan, size_t from, size_t to)
{
    scan->at = to;
    if (from == to)
        return;
    if (scan->found)
        note(scan, from, to);
    emit(scan, scan->text + scan->copied, from - scan->copied);
    emit(scan, REDACTED, strlen(REDACTED));
    for (size_t i = from; i < to; i++) {
        if (scan->text[i] == '\n')
            emit(scan, "\n", 1);
    }
    scan->copied = to;
}

static void begin_expression(struct scan *scan)
{
    scan->in_expression = true;
    scan->depth = 0;
    scan->lines = EXPRESSION_LINES;
}

/* ---- values ------------------------------------------------------------------------------------
 */

/* A string literal: where its content is and where the text continues. */
struct literal {
    size_t from, to, end;
};

static struct literal read_triple(const struct scan *scan, size_t at, char quote)
{
    const char triple[] = {quote, quote, quote, '\0'};
    size_t to = at + 3;

    while (to < scan->length && !starts_at(scan, to, triple))
        to++;
    return (struct literal){at + 3, to, MIN(to + 3, scan->length)};
}

/* `at` is at a quote, or at a backslash before one (JSON in a string). Ends with its line. */
static struct literal read_literal(const struct scan *scan, size_t at)
{
    bool is_escaped = scan->text[at] == '\\';
    char quote = scan->text[at + is_escaped];
    struct literal literal = {.from = at + is_escaped + 1};
    size_t to = literal.from;

    if (!is_escaped && peek(scan, at + 1) == quote && peek(scan, at + 2) == quote)
        return read_triple(scan, at, quote);
    while (to < scan->length && scan->text[to] != '\n' && scan->text[to] != quote) {
        if (scan->text[to] == '\\' && to + 1 < scan->length && scan->text[to + 1] != '\n') {
            if (is_escaped && scan->text[to + 1] == quote)
                break;
            to++;
        }
        to++;
    }
    literal.to = to;
    literal.end = to;
    if (is_escaped && starts_at(scan, to, (const char[]){'\\', quote, '\0'}))
        literal.end = to + 2;
    else if (to < scan->length && scan->text[to] == quote)
        literal.end = to + 1;
    return literal;
}

static bool has_credential_look(const char *value, size_t length)
{
    bool has_digit = false, has_letter = false;

    for (size_t i = 0; i < length; i++) {
        has_digit |= is_digit(value[i]);
        has_letter |= is_name_byte(value[i]) && !is_digit(value[i]);
        if (is_blank(value[i]))
            return false;
    }
    return length >= CREDENTIAL_MIN && has_digit && has_letter;
}

/* Is the quote at `at` the end of a string that began before the name, as in print("key:", x)? */
static bool is_closing(const struct scan *scan, size_t at)
{
    char behind = peek(scan, skip_blanks(scan, at + 1));

    return scan->quote == peek(scan, at) && (behind == '\0' || one_of(behind, ",)+%;]}.:\r\n"));
}

/* A quoted value: true when there was one, whatever became of it. */
static bool take_quoted(struct scan *scan, const struct name *name, size_t at)
{
    struct literal literal;
    size_t open = at;

    while (open < at + LITERAL_PREFIX_MAX && one_of(peek(scan, open), "rRbBfFuU"))
        open++;
    if (!is_quote(peek(scan, open)) &&
        !(peek(scan, open) == '\\' && is_quote(peek(scan, open + 1))))
        return false;
    scan->at = open;
    if (is_closing(scan, open))
        return true;
    literal = read_literal(scan, open);
    if (name->secrecy == SECRECY_FAINT &&
        !has_credential_look(scan->text + literal.from, literal.to - literal.from)) {
        /* left alone, and looked into */
        scan->quote = scan->text[literal.from - 1];
        scan->at = literal.from;
        return true;
    }
    replace(scan, literal.from, literal.to);
    scan->at = literal.end;
    return true;
}

/* Words after a name that are not secrets: constants, and those that begin an expression. */
static bool is_plain_word(const char *text, size_t length)
{
    static const char *const words[] = {
        "None",  "True",  "False", "null",   "true",  "false", "nil",    "undefined", "self",
        "await", "new",   "not",   "lambda", "async", "yield", "return", "raise",     "pass",
        "break", "print", "in",    "is",     "or",    "and",   "if",     "else",      "continue",
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0)
            return true;
    }
    return false;
}

static bool is_type_word(const char *text, size_t length)
{
    static const char *const words[] = {
        "str",       "bytes",  "int",  "float", "bool",  "dict",     "list",    "tuple",  "set",
        "object",    "Dict",   "List", "Any",   "Final", "Optional", "Union",   "typing", "string",
        "SecretStr", "number", "char", "const", "void",  "any",      "boolean", "Tuple",  "String",
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0)
            return true;
    }
    return false;
}

/* Letters, digits, '_' and '.': a name of a program, or a number. */
static size_t identifier_length(const struct scan *scan, size_t at)
{
    size_t end = at;

    while (end < scan->length &&
           ((is_name_byte(scan->text[end]) && scan->text[end] != '-') || scan->text[end] == '.'))
        end++;
    return end - at;
}

static bool is_number(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!is_digit(text[i]) && text[i] != '.' && text[i] != '_')
            return false;
    }
    return length > 0;
}

/* api_key=api_key and api_key=settings.api_key hand a variable on. */
static bool is_same_name(const struct name *name, const char *text, size_t length)
{
    if (length < name->length)
        return false;
    if (length > name->length && text[length - name->length - 1] != '.')
        return false;
    return strncasecmp(text + length - name->length, name->text, name->length) == 0;
}

/* The end of a bare value. If the name begins the line, it extends further than inside code. */
static size_t bare_end(const struct scan *scan, const struct name *name, size_t at)
{
    size_t end = at;

    if (name->is_fresh && name->separator == SEP_COLON)
        return line_end(scan, at);
    while (end < scan->length && !one_of(scan->text[end], " \t\r\n") && scan->text[end] != '\0') {
        if (!name->is_fresh && one_of(scan->text[end], ",;&)}]\"'`<>|"))
            break;
        end++;
    }
    return end;
}

/* "Bearer abc", "Basic abc": the scheme is replaced too. */
static size_t skip_scheme(const struct scan *scan, size_t at)
{
    static const char *const schemes[] = {"Bearer", "Basic", "Token", "Digest", "Negotiate"};
    size_t length = identifier_length(scan, at);

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        size_t behind = at + length;

        if (equals_any_case(scan->text + at, length, schemes[i]) && is_blank(peek(scan, behind)))
            return skip_blanks(scan, behind);
    }
    return at;
}

/* After ": str" of "token: str = ..." the value is yet to come; 0 if there is none. */
static size_t skip_annotation(const struct scan *scan, size_t at)
{
    size_t end = MIN(scan->length, at + TYPE_LOOKAHEAD);

    while (at < end && (is_name_byte(scan->text[at]) || one_of(scan->text[at], ".|[], ")))
        at++;
    return at < end && scan->text[at] == '=' && peek(scan, at + 1) != '=' ? at + 1 : 0;
}

/* Words that are not replaced. On true the walk continues at `at`, or in an expression. */
static bool is_left_alone(struct scan *scan, const struct name *name, size_t at)
{
    const char *word = scan->text + at;
    size_t length = identifier_length(scan, at);
    char behind = peek(scan, at + length);
    bool is_yaml = name->is_fresh && name->separator == SEP_COLON;
    bool is_whole = length > 0 && (behind == '\0' || one_of(behind, " \t\r\n,;&)}]\"'`#"));

    scan->at = at;
    if (starts_at(scan, at, REDACTED)) {
        scan->at = at + strlen(REDACTED);
        return true;
    }
    /* {name} in a format string */
    if (*word == '{' && scan->quote)
        return true;
    if (one_of(*word, "([{") || (length > 0 && !is_yaml && one_of(behind, "([")) ||
        (is_whole && is_plain_word(word, length))) {
        if (name->secrecy > SECRECY_FAINT)
            begin_expression(scan);
        return true;
    }
    if (!is_whole)
        return false;
    if (name->secrecy < SECRECY_STRONG && length <= SHORT_NUMBER && is_number(word, length))
        return true;
    return is_type_word(word, length) || is_same_name(name, word, length);
}

static void take_bare(struct scan *scan, const struct name *name, size_t at)
{
    size_t end;

    if (is_left_alone(scan, name, at))
        return;
    if (name->secrecy == SECRECY_FAINT) {
        end = at + identifier_length(scan, at);
        if (has_credential_look(scan->text + at, end - at))
            replace(scan, at, bare_end(scan, name, end));
        return;
    }
    end = bare_end(scan, name, skip_scheme(scan, at));
    replace(scan, at, end);
}

static void take_value(struct scan *scan, const struct name *name, size_t at)
{
    size_t word = identifier_length(scan, at), behind;

    if (name->separator == SEP_COLON && is_type_word(scan->text + at, word)) {
        behind = skip_annotation(scan, at);
        if (behind)
            at = skip_blanks(scan, behind);
    }
    scan->at = at;
    if (at == scan->length || one_of(scan->text[at], "\r\n"))
        return;
    /* secret = "abc" + "def": what follows belongs to it */
    if (name->is_fresh && name->separator == SEP_ASSIGN && is_blank(scan->text[at - 1]) &&
        name->secrecy > SECRECY_FAINT)
        begin_expression(scan);
    if (take_quoted(scan, name, at))
        return;
    if (name->separator != SEP_COMPARE && name->separator != SEP_COMMA)
        take_bare(scan, name, at);
}

/* ---- names -------------------------------------------------------------------------------------
 */

/* The separator at *at; moves past it. */
static enum separator read_separator(const struct scan *scan, size_t *at)
{
    static const struct {
        const char *text;
        enum separator separator;
    } rows[] = {
        {"===", SEP_COMPARE}, {"!==", SEP_COMPARE}, {"==", SEP_COMPARE}, {"!=", SEP_COMPARE},
        {"::", SEP_NONE},     {"://", SEP_NONE},    {":=", SEP_ASSIGN},  {"=>", SEP_ASSIGN},
        {"+=", SEP_ASSIGN},   {"=", SEP_ASSIGN},    {":", SEP_COLON},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (starts_at(scan, *at, rows[i].text)) {
            *at += strlen(rows[i].text);
            return rows[i].separator;
        }
    }
    return SEP_NONE;
}

/* After a quoted name: its quote and a bracket ("KEY"] = ). 0 if the name is not quoted. */
static size_t skip_name_quote(const struct scan *scan, size_t start, size_t end)
{
    char quote = start > 0 ? scan->text[start - 1] : '\0';

    if (!is_quote(quote))
        return 0;
    if (peek(scan, end) == '\\' && peek(scan, end + 1) == quote)
        end++;
    if (peek(scan, end) != quote)
        return 0;
    end++;
    return peek(scan, end) == ']' ? end + 1 : end;
}

/* Finds out how the name is tied to a value and where that begins. */
static enum separator find_value(struct scan *scan, size_t start, size_t end, size_t *ret_at)
{
    size_t quoted = skip_name_quote(scan, start, end);
    size_t at = skip_blanks(scan, quoted ? quoted : end);
    enum separator separator;

    if (quoted && start > 1 && scan->text[start - 2] == '(' && peek(scan, at) == ',') {
        separator = SEP_COMMA;
        at++;
    } else if (!quoted && start > 1 && scan->text[start - 1] == '-' &&
               scan->text[start - 2] == '-' && at > end && peek(scan, at) != '-') {
        separator = SEP_BLANK;
        if (one_of(peek(scan, at), "=:"))
            at++;
    } else {
        separator = read_separator(scan, &at);
    }
    if (separator == SEP_NONE)
        return SEP_NONE;
    if (quoted && scan->quote == scan->text[start - 1])
        scan->quote = '\0';
    *ret_at = skip_blanks(scan, at);
    return separator;
}

static bool is_export(const char *word, size_t length)
{
    return equals_any_case(word, length, "export") || equals_any_case(word, length, "set") ||
           equals_any_case(word, length, "env");
}

static void take_word(struct scan *scan)
{
    size_t start = scan->at, end = start, from, to, at;
    size_t token = token_length(scan->text + start, scan->length - start);
    const char *word = scan->text + start;
    struct name name = {.text = word, .is_fresh = scan->is_fresh};

    scan->is_fresh = false;
    if (token > 0) {
        replace(scan, start, start + token);
        return;
    }
    while (end < scan->length && is_name_byte(scan->text[end]))
        end++;
    scan->at = end;
    name.length = end - start;
    name.secrecy = secrecy_of_name(word, name.length);
    if (name.secrecy == SECRECY_NONE) {
        scan->is_fresh = name.is_fresh && is_export(word, name.length);
        if (equals_any_case(word, name.length, "bearer") &&
            find_bearer(scan->text + end, scan->length - end, &from, &to))
            replace(scan, end + from, end + to);
        return;
    }
    name.separator = find_value(scan, start, end, &at);
    if (name.separator != SEP_NONE)
        take_value(scan, &name, at);
}

/* ---- the walk ----------------------------------------------------------------------------------
 */

/* "OPENAI_API_KEY" in os.environ["OPENAI_API_KEY"] is the name of a secret and not the secret. */
static bool is_variable_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!(text[i] >= 'A' && text[i] <= 'Z') && text[i] != '_')
            return false;
    }
    return true;
}

static void take_quote(struct scan *scan)
{
    char quote = scan->text[scan->at];
    struct literal literal;

    if (scan->in_expression && !scan->quote) {
        literal = read_literal(scan, scan->at);
        if (!is_variable_name(scan->text + literal.from, literal.to - literal.from))
            replace(scan, literal.from, literal.to);
        scan->at = literal.end;
        return;
    }
    if (!scan->quote)
        scan->quote = quote;
    else if (scan->quote == quote)
        scan->quote = '\0';
    scan->at++;
}

static void take_newline(struct scan *scan)
{
    scan->quote = '\0';
    scan->is_fresh = true;
    scan->in_expression = scan->in_expression && scan->depth > 0 && --scan->lines > 0;
    scan->at++;
}

/* Follows brackets to see where an expression ends. */
static void take_other(struct scan *scan)
{
    char c = scan->text[scan->at++];

    if (!scan->in_expression || scan->quote)
        return;
    if (one_of(c, "([{"))
        scan->depth++;
    else if (one_of(c, ")]}"))
        scan->depth--;
    if (scan->depth < 0 || (scan->depth == 0 && one_of(c, ",;&")))
        scan->in_expression = false;
}

static void step(struct scan *scan)
{
    char c = scan->text[scan->at];
    const char *here = scan->text + scan->at;
    size_t left = scan->length - scan->at, from, to;

    if (c == '\n') {
        take_newline(scan);
        return;
    }
    if (c != '-' && is_name_byte(c)) {
        take_word(scan);
        return;
    }
    /* "- password: x" is still the beginning of a line, of YAML */
    scan->is_fresh = scan->is_fresh && (is_blank(c) || c == '-');
    if ((c == '-' && find_pem_body(here, left, &from, &to)) ||
        (c == ':' && find_url_password(here, left, &from, &to)))
        replace(scan, scan->at + from, scan->at + to);
    else if (is_quote(c))
        take_quote(scan);
    else if (c == '\\' && left > 1 && is_quote(here[1]))
        scan->at += 2; /* an escaped quote opens and closes nothing */
    else
        take_other(scan);
}

int redact(const char *text, size_t length, struct buf *ret)
{
    return redact_noting(text, length, ret, NULL);
}

int redact_noting(const char *text, size_t length, struct buf *ret, char ***found)
{
    struct scan scan = {
        .text = text, .length = length, .out = ret, .found = found, .is_fresh = true};

    buf_clear(ret);
    while (scan.at < scan.length && scan.status == 0)
        step(&scan);
    emit(&scan, text + scan.copied, length - scan.copied);
    return scan.status;
}
