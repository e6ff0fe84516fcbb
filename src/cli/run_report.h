/*
 * run_report.h - prints the end of a run, and its exit status.
 *
 * Prints on the standard streams. `output` and `signal` say whether the caller left or interrupted.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_RUN_REPORT_H
#define BAILEY_CLI_RUN_REPORT_H

#include "cli/output.h"
#include "cli/request.h"
#include "model/result.h"
#include "oneshot/oneshot.h"

struct run_report {
    const struct request *request;
    struct output output; /* as the run left it */
    int signal;           /* that interrupted the run; 0: none */
};

/* Returns the exit status of the command line (design, section 9). */
int run_report_print(const struct run_report *report, const struct result *result,
                     const struct oneshot_extra *extra);

#endif
