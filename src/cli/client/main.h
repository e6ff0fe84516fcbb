/*
 * main.h - the entry point of bailey-engine's commands. Parses by the same rows as `bailey`, which
 * normally has checked the arguments already.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_MAIN_H
#define BAILEY_CLI_CLIENT_MAIN_H

int client_main(int argc, char **argv); /* the exit status */

#endif
