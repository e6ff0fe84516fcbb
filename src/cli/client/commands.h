/*
 * commands.h - the functions of bailey-engine's commands, one file each. All return the exit
 * status.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_COMMANDS_H
#define BAILEY_CLI_CLIENT_COMMANDS_H

#include "cli/options.h"

int run_remote(const struct invocation *invocation);    /* `bailey run` with a URL */
int exec_remote(const struct invocation *invocation);   /* `bailey exec` with one, without -s */
int prompt_remote(const struct invocation *invocation); /* `bailey prompt` with a URL */
int session_run(const struct invocation *invocation);
int exec_run(const struct invocation *invocation);
int complete_run(const struct invocation *invocation);
int code_run(const struct invocation *invocation);
int ask_run(const struct invocation *invocation);
int context_run(const struct invocation *invocation);
int shell_run(const struct invocation *invocation);
int port_run(const struct invocation *invocation);
int cp_run(const struct invocation *invocation);
int ls_run(const struct invocation *invocation);
int cat_run(const struct invocation *invocation);
int rm_run(const struct invocation *invocation);
int outputs_run(const struct invocation *invocation);
int logs_run(const struct invocation *invocation);
int events_run(const struct invocation *invocation);
int ps_run(const struct invocation *invocation);
int tool_run(const struct invocation *invocation);
int daemon_run(const struct invocation *invocation);
int audit_run(const struct invocation *invocation);
int reload_run(const struct invocation *invocation);
int openapi_run(const struct invocation *invocation);
int mcp_run(const struct invocation *invocation);
int install_run(const struct invocation *invocation);
int template_run(const struct invocation *invocation);
int doctor_providers_run(const struct invocation *invocation); /* a part of `bailey doctor` */
int image_run(const struct invocation *invocation);
int key_run(const struct invocation *invocation);

#endif
