/*
 * place.h - the server that a command is for: this user's daemon, or the one of --url (BAILEY_URL).
 *
 * The options that name a server may stand before the command's name and after it. Both programs
 * put them into their own environment, where the rest of the code, bailey-engine and the SDKs look:
 * a key is then not in the arguments of bailey-engine. Borrows strings from the environment.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_PLACE_H
#define BAILEY_CLI_PLACE_H

#include <stdbool.h>

#include "cli/options.h"

#define PLACE_URL "BAILEY_URL"
#define PLACE_KEY "BAILEY_API_KEY"
#define PLACE_KEY_FILE "BAILEY_API_KEY_FILE"
#define PLACE_CA_FILE "BAILEY_CA_FILE"

/*
 * Takes options of a server out of the beginning of argv, which has the program's name first. Other
 * words are left where they are.
 */
int place_take_leading(int *argc, char ***argv, struct error *err);

/* The same options after the command's name. */
int place_take(const struct parsed *parsed, struct error *err);

/* The URL; NULL: this machine. Borrowed. */
const char *place_url(char *const *env);

/* With a URL: whether the command can work there, and the URL is one. The error says what to do. */
int place_check(const struct command *command, char *const *env, struct error *err);

#endif
