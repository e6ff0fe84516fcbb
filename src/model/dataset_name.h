/*
 * dataset_name.h - which kind of data a dataset is, by the end of its name. Pure.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_MODEL_DATASET_NAME_H
#define BAILEY_MODEL_DATASET_NAME_H

/* The ending of a kind of data (".parquet") that the name has; NULL: none, it is taken for CSV. */
const char *dataset_extension(const char *name);

/*
 * The ending that a dataset gets from the file that it is made of: "s" from "/x/s.parquet" is
 * s.parquet. "" where the name has its own, or the file is CSV or of no known kind.
 */
const char *dataset_extension_of_file(const char *name, const char *file);

#endif
