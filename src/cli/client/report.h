/*
 * report.h - arguments of commands in a session as JSON, and their results as text.
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

/* "K=V" strings (strv, may be NULL) as an object. New reference. */
int report_env(char *const *env, json_t **ret, struct error *err);

/*
 * Prints why it ended, if that is not the program's own status, and its files. Returns the exit
 * status.
 */
int report_result(json_t *result, bool is_quiet);

/* Only the exit status; `signal` is the one that interrupted this program, or 0. */
int report_status(json_t *result, int signal);

/* Whether a process still runs, or waits for its box. */
bool report_is_alive(json_t *process);

/* "running", "exit 3", "timed out" */
void report_process_state(json_t *process, char text[FORMAT_SIZE]);

/* A command roughly as one would type it: arguments with blanks are quoted. */
void report_command(json_t *argv, struct buf *to);

/* Prints how much output was deleted before it could be read. */
void report_missed(const struct follow *follow);

#endif
