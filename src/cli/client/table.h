/*
 * table.h - tables for people: aligned, sanitised. Pure except for table_show().
 *
 * Cells are copied and sanitised (a guest chose many of the names); the last column is not padded,
 * a column marked with '>' is right-aligned.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_TABLE_H
#define BAILEY_CLI_CLIENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define TABLE_COLUMNS_MAX 8

struct table {
    size_t columns;
    bool is_right[TABLE_COLUMNS_MAX];
    char **cells; /* strv, row by row; the first row is the heading */
    int failure;  /* negative errno of the first failure */
};

/* Headings, NULL-terminated; one that begins with '>' is right-aligned. */
void table_begin(struct table *table, const char *const *headings);
void table_cell(struct table *table, const char *text); /* NULL or empty: "-" */
int table_print(const struct table *table, struct buf *to);
/* On standard output, on a terminal with coloured headings; returns the exit status. */
int table_show(const struct table *table);
void table_free(struct table *table); /* for CLEANUP() */

/* The columns that a text takes on a terminal: code points, roughly. */
size_t table_width(const char *text);

#endif
