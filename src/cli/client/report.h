/*
 * report.h - what commands in a session are told and tell: words into JSON, results into words.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_REPORT_H
#define BAILEY_CLI_CLIENT_REPORT_H

#include <stdbool.h>

#include "cli/client/client.h"
#include "cli/client/follow.h"
#include "cli/client/format.h"

/* Arguments as an array of strings; those that are not UTF-8 are refused. New reference. */
int report_words(const char *const *words, json_t **ret, struct error *err);

/* "K=V" words (strv, may be NULL) as an object. New reference. */
int report_env(char *const *env, json_t **ret, struct error *err);

/* Why it ended, when that is not the program's own status, and its files. The exit status. */
int report_result(json_t *result, bool is_quiet);

/* Only the exit status; `signal` is the one that interrupted us, or 0. */
int report_status(json_t *result, int signal);

/* Does a process of the API still run, or wait for its box? */
bool report_is_alive(json_t *process);

/* "running", "exit 3", "timed out" */
void report_process_state(json_t *process, char text[FORMAT_SIZE]);

/* A command as one would type it, nearly: words with blanks are quoted. */
void report_command(json_t *argv, struct buf *to);

/* Output that was not kept until we came. */
void report_missed(const struct follow *follow);

#endif
