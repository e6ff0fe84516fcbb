/*
 * program_settings.h - SANDBOX_PYTHON and SANDBOX_NODE as a command sends them to a daemon of this
 * machine: the program itself, found with the PATH and the rights of the command.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_PROGRAM_SETTINGS_H
#define BAILEY_CLI_PROGRAM_SETTINGS_H

#include "base/error.h"

struct config;

/* Keys that are not set stay so. An interpreter that is set and not found is an error. */
int program_settings(struct config *config, struct error *err);

#endif
