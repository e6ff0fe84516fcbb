/*
 * audit_file.h - the files of the audit and the lines in them, for writing, verifying and reading.
 * For observe/ only.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_OBSERVE_AUDIT_FILE_H
#define BAILEY_OBSERVE_AUDIT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/sha256.h"

#define AUDIT_FILE "audit.jsonl"
#define AUDIT_HEAD "audit.head"
#define AUDIT_NAME_MAX 32
#define AUDIT_BEGINNING "0000000000000000000000000000000000000000000000000000000000000000"

/* The full ones, by number, oldest first. */
struct audit_files {
    uint32_t *numbers;
    size_t count;
};
int audit_files_list(int folder_fd, struct audit_files *ret); /* 0 or a negative errno */
void audit_files_free(struct audit_files *files);             /* for CLEANUP() */
void audit_file_name(uint32_t number, char name[AUDIT_NAME_MAX]);

/* A regular file, read-only, no link followed; or a negative errno. */
int audit_file_open(int folder_fd, const char *name);

/* What a line says of itself. */
struct audit_line {
    uint64_t seq;
    char prev[SHA256_TEXT];
};
/* False: it is none of a chain. */
bool audit_line_read(const char *data, size_t length, struct audit_line *ret);
void audit_line_hash(const char *data, size_t length, char hash[SHA256_TEXT]);

/* Lines of a file one after the other. */
struct audit_lines {
    int fd; /* owned */
    uint64_t number;
    struct buf buf;
    size_t taken; /* of buf: the line that was returned last */
};
void audit_lines_begin(struct audit_lines *lines, int fd);
/* 1 and a line with its end; 0: no more (*ret_length: bytes without an end), -EFBIG: too long. */
int audit_lines_next(struct audit_lines *lines, const char **ret, size_t *ret_length);
void audit_lines_end(struct audit_lines *lines); /* for CLEANUP() */

/* audit.head; false: it is not there or not sound. */
bool audit_head_read(int fd, struct audit_line *ret);
void audit_head_write(int fd, uint64_t seq, const char *hash);

#endif
