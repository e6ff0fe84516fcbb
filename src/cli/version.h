/*
 * version.h - the version, as meson.build says it; -DBAILEY_VERSION comes from there.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_VERSION_H
#define BAILEY_CLI_VERSION_H

#ifndef BAILEY_VERSION
#error "BAILEY_VERSION is defined by meson.build: the project's version as a string"
#endif

#endif
