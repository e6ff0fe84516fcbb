/* report.h - what commands in a session are told and tell: words into JSON, results into words. */
#ifndef BAILEY_CLI_CLIENT_REPORT_H
#define BAILEY_CLI_CLIENT_REPORT_H

#include <stdbool.h>

#include "cli/client/client.h"
#include "cli/client/follow.h"

/* Arguments as an array of strings; those that are not UTF-8 are refused. New reference. */
int report_words(const char *const *words, json_t **ret, struct error *err);

/* "K=V" words (strv, may be NULL) as an object. New reference. */
int report_env(char *const *env, json_t **ret, struct error *err);

/* Why it ended, when that is not the program's own status, and its files. The exit status. */
int report_result(json_t *result, bool is_quiet);

/* Only the exit status; `signal` is the one that interrupted us, or 0. */
int report_status(json_t *result, int signal);

/* Output that was not kept until we came. */
void report_missed(const struct follow *follow);

#endif
