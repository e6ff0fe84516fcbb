/* options.c - the one option parser, for every command: rows in, uses and operands out. */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define OPTIONS_MAX 64

/* The parser's position; `index` is the next word to look at. */
struct cursor {
    const struct command *command;
    int argc;
    const char *const *argv;
    int index;
    struct parsed *parsed;
    struct error *err;
};

static const char *const nothing[] = {NULL};

const struct option_row *options_row_at(const struct command *command, size_t index)
{
    if (index < command->option_count)
        return &command->options[index];
    index -= command->option_count;
    return index < common_option_count ? &common_options[index] : NULL;
}

static const struct option_row *row_by_name(const struct command *command, const char *name,
                                            size_t length)
{
    const struct option_row *row;

    for (size_t i = 0; (row = options_row_at(command, i)); i++)
        if (strlen(row->name) == length && memcmp(row->name, name, length) == 0)
            return row;
    return NULL;
}

static const struct option_row *row_by_letter(const struct command *command, char letter)
{
    const struct option_row *row;

    for (size_t i = 0; (row = options_row_at(command, i)); i++)
        if (row->letter && row->letter == letter)
            return row;
    return NULL;
}

static int unknown_option(const struct cursor *cursor, const char *name, size_t length)
{
    const char *names[OPTIONS_MAX + 1];
    const struct option_row *row;
    const char *nearest;
    char word[64];
    size_t count = 0;

    for (size_t i = 0; count < OPTIONS_MAX && (row = options_row_at(cursor->command, i)); i++)
        names[count++] = row->name;
    names[count] = NULL;

    length = MIN(length, sizeof(word) - 1);
    memcpy(word, name, length);
    word[length] = 0;
    nearest = str_nearest(word, names);
    if (nearest)
        return error_set(
            cursor->err, -EINVAL, ERROR_BAD_INPUT,
            "unknown option '--%s'; did you mean '--%s'? ('bailey %s --help' lists all)", word,
            nearest, cursor->command->name);
    return error_set(cursor->err, -EINVAL, ERROR_BAD_INPUT,
                     "unknown option '--%s'; 'bailey %s --help' lists the known ones", word,
                     cursor->command->name);
}

static bool is_switched_on(const struct parsed *parsed, const struct option_row *row)
{
    for (size_t i = 0; i < parsed->use_count; i++)
        if (parsed->uses[i].row == row)
            return true;
    return false;
}

/*
 * Notes an option. A switch is noted once however often it is written, so that a cluster such as
 * "-qqqq" cannot give more uses than there are words and switches: the array's size.
 */
static void use(struct cursor *cursor, const struct option_row *row, const char *value)
{
    struct parsed *parsed = cursor->parsed;

    if (str_equal(row->name, "help"))
        parsed->wants_help = true;
    else if (row->argument || !is_switched_on(parsed, row))
        parsed->uses[parsed->use_count++] = (struct option_use){.row = row, .value = value};
}

/* The word after an option that needs a value and did not carry it. */
static int take_value(struct cursor *cursor, const struct option_row *row)
{
    if (cursor->index >= cursor->argc)
        return error_set(cursor->err, -EINVAL, ERROR_BAD_INPUT, "--%s needs a value: --%s %s",
                         row->name, row->name, row->argument);
    use(cursor, row, cursor->argv[cursor->index++]);
    return 0;
}

/* "--name", "--name value", "--name=value"; `text` is what follows the dashes. */
static int parse_long(struct cursor *cursor, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    const struct option_row *row = row_by_name(cursor->command, text, length);

    if (!row)
        return unknown_option(cursor, text, length);
    if (!row->argument) {
        if (equals)
            return error_set(cursor->err, -EINVAL, ERROR_BAD_INPUT,
                             "--%s is a switch and takes no value", row->name);
        use(cursor, row, NULL);
        return 0;
    }
    if (!equals)
        return take_value(cursor, row);
    use(cursor, row, equals + 1);
    return 0;
}

/* "-q", "-c CODE", "-cCODE"; several switches may share a dash. `text` is what follows it. */
static int parse_short(struct cursor *cursor, const char *text)
{
    for (; *text; text++) {
        const struct option_row *row = row_by_letter(cursor->command, *text);

        if (!row)
            return error_set(cursor->err, -EINVAL, ERROR_BAD_INPUT,
                             "unknown option '-%c'; 'bailey %s --help' lists the known ones", *text,
                             cursor->command->name);
        if (!row->argument) {
            use(cursor, row, NULL);
            continue;
        }
        if (!text[1])
            return take_value(cursor, row);
        use(cursor, row, text + 1);
        return 0;
    }
    return 0;
}

static void start_rest(struct cursor *cursor)
{
    cursor->parsed->rest = cursor->argv + cursor->index;
    cursor->parsed->rest_count = (size_t)(cursor->argc - cursor->index);
    cursor->parsed->has_rest = true;
    cursor->index = cursor->argc;
}

static int add_operand(struct cursor *cursor, const char *word)
{
    const struct command *command = cursor->command;
    struct parsed *parsed = cursor->parsed;

    if (parsed->operand_count < command->operand_max) {
        parsed->operands[parsed->operand_count++] = word;
        return 0;
    }
    if (command->has_rest && command->operand_max > 0)
        return error_set(cursor->err, -EINVAL, ERROR_BAD_INPUT,
                         "unexpected argument '%.100s': arguments of the program follow '--', as "
                         "in 'bailey %s FILE -- %.100s'",
                         word, command->name, word);
    return error_set(cursor->err, -EINVAL, ERROR_BAD_INPUT,
                     "unexpected argument '%.100s'; usage: bailey %s %s", word, command->name,
                     command->usage);
}

static int parse_word(struct cursor *cursor)
{
    const char *word = cursor->argv[cursor->index];

    if (str_equal(word, "--")) {
        cursor->index++;
        start_rest(cursor);
        return 0;
    }
    if (word[0] == '-' && word[1]) {
        cursor->index++;
        return word[1] == '-' ? parse_long(cursor, word + 2) : parse_short(cursor, word + 1);
    }
    if (cursor->command->rest_starts_at_operand) {
        start_rest(cursor);
        return 0;
    }
    cursor->index++;
    return add_operand(cursor, word);
}

/* For a command that runs no program, words after "--" are plain operands. */
static int rest_to_operands(struct cursor *cursor)
{
    struct parsed *parsed = cursor->parsed;

    if (cursor->command->has_rest)
        return 0;
    for (size_t i = 0; i < parsed->rest_count; i++) {
        int result = add_operand(cursor, parsed->rest[i]);

        if (result < 0)
            return result;
    }
    parsed->rest = nothing;
    parsed->rest_count = 0;
    return 0;
}

int options_parse(const struct command *command, int argc, const char *const *argv,
                  struct parsed *ret, struct error *err)
{
    struct cursor cursor = {
        .command = command, .argc = argc, .argv = argv, .parsed = ret, .err = err};

    *ret = (struct parsed){.rest = nothing};
    ret->uses = calloc((size_t)argc + OPTIONS_MAX, sizeof(*ret->uses));
    ret->operands = calloc((size_t)argc + 1, sizeof(*ret->operands));
    if (!ret->uses || !ret->operands)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the arguments");

    while (cursor.index < argc) {
        int result = parse_word(&cursor);

        if (result < 0)
            return result;
    }
    return rest_to_operands(&cursor);
}

void parsed_free(struct parsed *parsed)
{
    free(parsed->uses);
    free(parsed->operands);
    *parsed = (struct parsed){.rest = nothing};
}

int options_take(const struct parsed *parsed, void *target, struct error *err)
{
    for (size_t i = 0; i < parsed->use_count; i++) {
        const struct option_use *option = &parsed->uses[i];
        int result;

        if (!option->row->take)
            continue;
        result = option->row->take(target, option->value, err);
        if (result < 0)
            return result;
    }
    return 0;
}

int options_configure(const struct parsed *parsed, struct config *config, struct error *err)
{
    for (size_t i = 0; i < parsed->use_count; i++) {
        const struct option_use *option = &parsed->uses[i];
        char flag[64];
        int result;

        if (!option->row->is_config)
            continue;
        str_format(flag, sizeof(flag), "--%s", option->row->name);
        result = config_set(config, option->row->key, option->value, flag, err);
        if (result < 0)
            return result;
    }
    return config_check(config, err);
}
