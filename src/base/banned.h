/*
 * banned.h - calls that do not compile here, each with what to use instead. Included on the command
 * line (-include) for everything in src/, after the libc headers that declare them.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_BANNED_H
#define BAILEY_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* libc has some of them as macros, depending on the compiler and on _FORTIFY_SOURCE */
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#undef alloca

#pragma GCC poison strcpy strcat strncpy strncat  /* str_copy */
#pragma GCC poison sprintf vsprintf gets strtok   /* str_format, buf_printf */
#pragma GCC poison atoi atol atoll atof           /* str_to_u64 ... */
#pragma GCC poison system popen                   /* nothing runs a shell */
#pragma GCC poison dup                            /* fcntl(F_DUPFD_CLOEXEC) */
#pragma GCC poison mktemp tmpnam tempnam          /* mkdtemp, O_TMPFILE */
#pragma GCC poison alloca                         /* buf */
#pragma GCC poison gmtime localtime ctime asctime /* gmtime_r; clock.h */

#endif
