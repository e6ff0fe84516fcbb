/*
 * maker.h - what libbailey and the program that it carries say to each other, over one stream
 * socket.
 *
 * The library sends a head (struct maker_head) and behind it one JSON object, the run: the members
 * of POST /v1/run (code, language, name, arguments, timeout, env, stdin, template, isolation, type,
 * limits), and besides them
 *   "argv": ["PROGRAM", ...]               a program of the box instead of code
 *   "files": [{"host": ..., "box": ...}]   files and folders to copy in; box is optional
 *   "out": "FOLDER"                        gets the files of /tmp/output
 * The maker answers with the server-sent events of POST /v1/run: stdout and stderr with "data" and
 * "encoding": "base64", then exit with the result. The library's end of the socket that is shut
 * down, or closed because its process has gone, ends the run and its box.
 *
 * Runs in: commands, callers
 */
#ifndef BAILEY_MAKER_MAKER_H
#define BAILEY_MAKER_MAKER_H

#include <stdint.h>

#define MAKER_FD 3         /* the maker's end of the socket */
#define MAKER_PROGRAM_FD 4 /* what it is executed from; closed by execution */
#define MAKER_NAME "libbailey-box"
#define MAKER_MAGIC 0x62617901u /* raised with every change of what is said */
#define MAKER_REQUEST_MAX (96u << 20)

struct maker_head {
    uint32_t magic;
    uint32_t length; /* of the JSON */
};

#endif
