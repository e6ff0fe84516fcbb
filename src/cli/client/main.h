/*
 * main.h - the way into the commands of bailey-engine. Parses by the same rows as `bailey`, which
 * normally has checked the arguments already.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_MAIN_H
#define BAILEY_CLI_CLIENT_MAIN_H

int client_main(int argc, char **argv); /* the exit status */

#endif
