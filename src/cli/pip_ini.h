/*
 * pip_ini.h - pip's own settings on this host: its files and variables, read as pip reads them,
 * without executing any Python. Reads files with the caller's rights; blocks for the disk only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_PIP_INI_H
#define BAILEY_CLI_PIP_INI_H

#include <stddef.h>

/* The options that count for where packages come from. */
enum pip_option {
    PIP_INDEX_URL,
    PIP_EXTRA_INDEX_URL,
    PIP_FIND_LINKS,
    PIP_NO_INDEX,
    PIP_TRUSTED_HOST,
    PIP_CERT,
    PIP_CLIENT_CERT,
    PIP_PROXY,
    PIP_TIMEOUT,
    PIP_DEFAULT_TIMEOUT, /* another name of it */
    PIP_RETRIES,
    _PIP_OPTION_MAX,
};
extern const char *const pip_options[_PIP_OPTION_MAX]; /* "index-url" */

/* Owned strings; NULL: not set. An option of [install] counts more than one of [global]. */
struct pip_values {
    char *global[_PIP_OPTION_MAX];
    char *install[_PIP_OPTION_MAX];
};

struct pip_sources {
    const char *root;   /* "" but in tests: before every path of a file */
    char *const *env;   /* "K=V", NULL-terminated */
    const char *prefix; /* of the interpreter; NULL: none */
};

/* Text of one file, as configparser reads it; later values replace earlier ones. */
int pip_ini_parse(const char *text, size_t length, struct pip_values *values); /* 0 or -ENOMEM */

/*
 * All files in pip's order, then the variables, as one value for each option (borrowed from
 * `values`, "" or NULL: not set). `unread` (strv) gets the names of files that are there and cannot
 * be read. 0 or -ENOMEM.
 */
int pip_values_read(const struct pip_sources *sources, struct pip_values *values, char ***unread);
const char *pip_value(const struct pip_values *values, enum pip_option option);
void pip_values_free(struct pip_values *values);

#endif
