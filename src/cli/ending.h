/*
 * ending.h - what is said when a run is over, and the exit status it gives.
 *
 * Prints on the standard streams. `output` and `signal` tell whether the caller left or
 * interrupted.
 */
#ifndef BAILEY_CLI_ENDING_H
#define BAILEY_CLI_ENDING_H

#include "cli/output.h"
#include "cli/request.h"
#include "model/result.h"
#include "tool/oneshot.h"

struct ending {
    const struct request *request;
    struct output output; /* as the run left it */
    int signal;           /* that interrupted the run; 0: none */
};

/* Returns the exit status of the command line (design, section 9). */
int ending_report(const struct ending *ending, const struct result *result,
                  const struct oneshot_extra *extra);

#endif
