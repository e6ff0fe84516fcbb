/*
 * output_sniff.h - the MIME type of an output by its first bytes. Pure; bytes and name come from a
 * guest, so the name is used only where the bytes do not contradict it.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_OUTPUT_SNIFF_H
#define BAILEY_SESSION_OUTPUT_SNIFF_H

#include <stddef.h>

#define OUTPUT_SNIFF_BYTES 512 /* read from the start of a file */

const char *output_sniff(const char *name, const void *head, size_t length); /* static */

#endif
