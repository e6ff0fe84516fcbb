/*
 * output_sniff.h - the MIME type of an output by its first bytes. Pure; bytes and name are a
 * guest's, so a name is believed only where the bytes do not speak against it.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_OUTPUT_SNIFF_H
#define BAILEY_SESSION_OUTPUT_SNIFF_H

#include <stddef.h>

#define OUTPUT_SNIFF_BYTES 512 /* that are looked at */

const char *output_sniff(const char *name, const void *head, size_t length); /* static */

#endif
