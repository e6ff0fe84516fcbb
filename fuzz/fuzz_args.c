/*
 * fuzz_args.c - the argument parser: bytes split at NUL are argv, the first word names the command.
 *
 * Besides not crashing: lists end where their counts say, every value belongs to an option that
 * takes one, and every word is either used or refused.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client_request.h"
#include "cli/options.h"
#include "cli/request.h"

#define WORDS_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct command *command, const struct parsed *parsed)
{
    assert(parsed->operand_count <= command->operand_max);
    assert(!parsed->operands[parsed->operand_count]);
    assert(!parsed->rest[parsed->rest_count]);
    assert(command->has_rest || parsed->rest_count == 0);
    for (size_t i = 0; i < parsed->use_count; i++)
        assert(!parsed->uses[i].value == !parsed->uses[i].row->argument);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const char *words[WORDS_MAX + 1];
    const struct command *command;
    struct client_request client;
    struct request request = {0};
    struct parsed parsed;
    struct error err = {0};
    int count = 0;

    assert(text);
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t at = 0; at < size && count < WORDS_MAX; at += strlen(text + at) + 1)
        words[count++] = text + at;
    words[count] = NULL;

    command = count > 0 ? command_find(words[0]) : NULL;
    if (!command && count > 0)
        assert(command_unknown(words[0], &err) < 0);
    if (!command)
        command = &run_command;
    if (options_parse(command, count > 0 ? count - 1 : 0, words + (count > 0), &parsed, &err) ==
        0) {
        check(command, &parsed);
        /* Only these two have a struct request as their target, the engine's another one. */
        if (command == &run_command || command == &exec_command)
            options_take(&parsed, &request, &err);
        if (command->in_engine) {
            client_request_load(&(struct invocation){.command = command, .parsed = parsed}, &client,
                                &err);
            client_request_free(&client);
        }
    } else {
        assert(err.num < 0 && err.code && err.text[0]);
    }
    request_free(&request);
    parsed_free(&parsed);
    free(text);
    return 0;
}
