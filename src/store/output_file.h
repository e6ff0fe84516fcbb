/*
 * output_file.h - a file that came out of a box, written to a folder of the host.
 *
 * Names and modes come from a box and are hostile: names are checked component by component,
 * folders are made and files created beneath a descriptor without following links, without execute
 * bits, first under a temporary name. Hidden names are refused (a later program of the host might
 * obey them: .git/hooks, .bashrc, .env), and so is bailey.yaml, our own configuration.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_OUTPUT_FILE_H
#define BAILEY_STORE_OUTPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Why it must not come out; NULL if it may. A static text. Pure. */
const char *output_kind_problem(uint32_t mode);
const char *output_name_problem(const char *name);
/* A size that the box's disk cannot have had, and that would fill the caller's disk with zeros. */
#define OUTPUT_SPARSE "larger than the box's disk (sparse)"

/* A file on its way; -1 descriptors: none. */
struct output_writer {
    int dir_fd, fd;
    const char *last; /* borrowed: the end of the name given to begin */
    char temporary[64];
};
#define OUTPUT_WRITER_INIT ((struct output_writer){.dir_fd = -1, .fd = -1})

/* `name` has passed output_name_problem() and stays until the end. 0 or a negative errno. */
int output_writer_begin(struct output_writer *writer, int folder_fd, const char *name,
                        uint32_t mode);
int output_writer_write(struct output_writer *writer, const void *data, size_t length);
int output_writer_end(
    struct output_writer *writer); /* the complete file, or a negative errno and no file */
void output_writer_cancel(struct output_writer *writer); /* safe twice */

#endif
