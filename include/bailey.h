/*
 * bailey.h - runs code of AI agents in sandboxes, from C and C++: over a Bailey server, or in boxes
 * that this library makes itself.
 *
 * bailey(3) is the manual, docs/sdk.md the introduction. In short:
 *
 * Handles. All types but struct bailey_error are opaque. Whoever gets one through a `ret` argument
 * owns it and ends it with the function named there; NULL is fine for all of those. Texts that an
 * accessor returns belong to the handle and live as long as it does. Arguments are copied, unless
 * it is said otherwise, and may be freed after the call.
 *
 * Errors. Functions return 0 or a negative errno, and fill the caller's struct bailey_error (NULL:
 * the number is enough). `ret` arguments are written only on success. A handle or text that is NULL
 * where one is needed is -EINVAL; of a result that is NULL, accessors say "", NULL, 0 and exit code
 * -1. So a failure that was not looked at is an error later, and no crash.
 *
 * Threads. A bailey_engine and everything made from it are used by one thread at a time; different
 * ones by different threads at once. The library starts no thread, installs no signal handler, and
 * waits for no child but its own (by pidfd). Over a server, libcurl may look up a host's name in a
 * thread of its own while it connects, and starts the TLS library of the process once.
 *
 * fork(2). An engine stays with the process that opened it: a child may execute a program, which
 * inherits none of the library's connections, and opens an engine of its own if it needs one. It
 * leaves those of its parent alone, bailey_close() included.
 *
 * ABI. The library's name (libbailey.so.0) changes with every incompatible change, its symbols have
 * the version BAILEY_0. Functions that come later are added; struct bailey_error keeps its size.
 */
#ifndef BAILEY_H
#define BAILEY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BAILEY_API __attribute__((visibility("default")))
#else
#define BAILEY_API
#endif

typedef struct bailey_engine bailey_engine;   /* where code runs: a server, or here */
typedef struct bailey_spec bailey_spec;       /* what to run, and with which limits */
typedef struct bailey_job bailey_job;         /* a run under way */
typedef struct bailey_result bailey_result;   /* how a run ended */
typedef struct bailey_sandbox bailey_sandbox; /* a session of a server: keeps files and variables */

/* Belongs to the caller; needs no freeing. Zero-initialised: no error. */
struct bailey_error {
    int number;       /* negative errno; 0: unset */
    unsigned status;  /* of the server's answer (HTTP); 0: there was none */
    unsigned retry_s; /* seconds after which a retry may succeed; 0: unknown */
    char code[48];    /* a stable word such as "session_not_found": docs/rest.md, docs/result.md */
    char stage[48];   /* the stage of making a box that failed; or empty */
    char text[1024];  /* one sentence for a person */
    char reserved[148]; /* zero; becomes members that come later */
};

/* "0.1.0", of the library that is loaded. */
BAILEY_API const char *bailey_version(void);

/* ---- where code runs ---- */

/*
 * A server: "http://HOST:PORT", "https://HOST:PORT" or "unix:///PATH". `url` NULL: BAILEY_URL,
 * else the socket of this user's daemon, if it runs (-ECONNREFUSED with code "no_daemon" if not).
 * `key` NULL: BAILEY_API_KEY, if `url` is NULL too. Nothing is sent yet. End it with
 * bailey_close().
 */
BAILEY_API int bailey_open(bailey_engine **ret, const char *url, const char *key,
                           struct bailey_error *err);

/*
 * Here: each run gets a box of its own, made by this library without a server. The box's maker is
 * a small program that the library carries and executes from memory (memfd_create(2)); it has the
 * caller's ids, environment, working folder and standard error, no other descriptor and none of
 * its memory. Configured as `bailey run` is: SANDBOX_* variables and bailey.yaml. End it with
 * bailey_close().
 */
BAILEY_API int bailey_open_local(bailey_engine **ret, struct bailey_error *err);

/* Ends what still runs; free jobs and sandboxes before. A box made here is gone when it returns. */
BAILEY_API void bailey_close(bailey_engine *engine);

/* ---- what to run ---- */

/*
 * A description, which can be used any number of times, for any engine. NULL: no memory. The
 * functions that add to it return 0 or a negative errno, which need not be looked at: using the
 * description then fails with the first of these errors. Adding to NULL is -ENOMEM, using it
 * -EINVAL.
 */
BAILEY_API bailey_spec *bailey_spec_new(void);
BAILEY_API void bailey_spec_free(bailey_spec *spec);

/* Source code, UTF-8: "python" (also for NULL), "javascript" or "bash". */
BAILEY_API int bailey_spec_code(bailey_spec *spec, const char *language, const char *code,
                                size_t length);
/* Instead: a program and its arguments, NULL-terminated. Here, and in a sandbox. */
BAILEY_API int bailey_spec_program(bailey_spec *spec, const char *const *argv);
/* One more argument of the code (sys.argv). */
BAILEY_API int bailey_spec_argument(bailey_spec *spec, const char *argument);
BAILEY_API int bailey_spec_env(bailey_spec *spec, const char *name, const char *value);
/* The whole standard input, UTF-8. */
BAILEY_API int bailey_spec_stdin(bailey_spec *spec, const char *text, size_t length);
/*
 * A setting by its name: "memory" ("512m"), "cpus", "pids", "disk", "timeout" ("30", "250ms"),
 * "template", "isolation", "type", "name" (of the source; of a sandbox); in a sandbox "cwd" and
 * "context"; of a sandbox "idle_timeout" and "max_age". -EINVAL: no such setting.
 */
BAILEY_API int bailey_spec_set(bailey_spec *spec, const char *setting, const char *value);
/* Only here: a file or folder to copy in, to `box` or (NULL) to /workspace; and a folder that gets
 * the files of /tmp/output. */
BAILEY_API int bailey_spec_file(bailey_spec *spec, const char *host, const char *box);
BAILEY_API int bailey_spec_out(bailey_spec *spec, const char *folder);

/*
 * Called with output as it arrives: stream 1 or 2, any bytes. It may cancel jobs and begin others,
 * and not free, wait or close; and it throws no C++ exception. `ctx` is borrowed until the last job
 * of the description has ended.
 */
typedef void (*bailey_on_output)(void *ctx, int stream, const void *data, size_t length);
BAILEY_API void bailey_spec_on_output(bailey_spec *spec, bailey_on_output on_output, void *ctx);

/* ---- running ---- */

/*
 * Runs it in a fresh sandbox and waits for its end. 0: it ran, whatever its exit code; *ret is how
 * it ended, to be freed with bailey_result_free(). Else it did not start, or did not come to its
 * end.
 */
BAILEY_API int bailey_run(bailey_engine *engine, const bailey_spec *spec, bailey_result **ret,
                          struct bailey_error *err);
/* The same for a few lines of code. */
BAILEY_API int bailey_run_code(bailey_engine *engine, const char *language, const char *code,
                               bailey_result **ret, struct bailey_error *err);

/*
 * Begins it. The job goes on in bailey_step() and in every function that waits; free it with
 * bailey_job_free() before its engine is closed.
 */
BAILEY_API int bailey_start(bailey_engine *engine, const bailey_spec *spec, bailey_job **ret,
                            struct bailey_error *err);
BAILEY_API int bailey_job_is_done(const bailey_job *job); /* 1 or 0 */
/* Waits for the end. As bailey_run(), but the result belongs to the job. */
BAILEY_API int bailey_job_wait(bailey_job *job, const bailey_result **ret,
                               struct bailey_error *err);
/* How it ended, after the end, also of one that was cancelled; NULL: it has no result. It belongs
 * to the job. */
BAILEY_API const bailey_result *bailey_job_result(const bailey_job *job);
/* Asks for the end of what runs; the job is done some time later, with -ECANCELED. */
BAILEY_API void bailey_job_cancel(bailey_job *job);
/* Ends it, if it runs: a box made here is gone when it returns, the connection to a server is
 * closed, and the server ends what ran for it. */
BAILEY_API void bailey_job_free(bailey_job *job);

/*
 * For event loops: a descriptor that poll(2), epoll or a library's loop reports as readable when
 * bailey_step() has something to do. It belongs to the engine and stays the same; only wait for it.
 */
BAILEY_API int bailey_fd(const bailey_engine *engine);
/*
 * Does what there is to do and waits for it at most timeout_ms (0: not at all, -1: as long as it
 * takes; without a job there is nothing to wait for). Callbacks are called from here. Returns the
 * number of jobs that still run, or a negative errno.
 */
BAILEY_API int bailey_step(bailey_engine *engine, int timeout_ms, struct bailey_error *err);

/* ---- results ---- */

BAILEY_API void bailey_result_free(bailey_result *result);
/* UTF-8, NUL-terminated; `ret_length` may be NULL. Cut at the limit of the configuration. */
BAILEY_API const char *bailey_result_stdout(const bailey_result *result, size_t *ret_length);
BAILEY_API const char *bailey_result_stderr(const bailey_result *result, size_t *ret_length);
BAILEY_API int bailey_result_exit_code(const bailey_result *result);
BAILEY_API double bailey_result_seconds(const bailey_result *result);
BAILEY_API int bailey_result_timed_out(const bailey_result *result); /* 1 or 0 */
/* The value of a cell's last expression as text, such as "42", else what it displayed last; NULL:
 * there is none. */
BAILEY_API const char *bailey_result_text(const bailey_result *result);
/* All of it: the JSON document of docs/result.md. */
BAILEY_API const char *bailey_result_json(const bailey_result *result);

/* ---- sandboxes: sessions of a server ---- */

/*
 * Makes one, or (connect) finds one by its id or name. `settings` NULL: the server's. Free the
 * handle with bailey_sandbox_free(), which leaves the session alive, or end both.
 */
BAILEY_API int bailey_sandbox_new(bailey_engine *engine, const bailey_spec *settings,
                                  bailey_sandbox **ret, struct bailey_error *err);
BAILEY_API int bailey_sandbox_connect(bailey_engine *engine, const char *id, bailey_sandbox **ret,
                                      struct bailey_error *err);
BAILEY_API const char *bailey_sandbox_id(const bailey_sandbox *sandbox);
/* Ends the session and frees the handle, also when the server reports an error. */
BAILEY_API int bailey_sandbox_end(bailey_sandbox *sandbox, struct bailey_error *err);
BAILEY_API void bailey_sandbox_free(bailey_sandbox *sandbox);

/* As bailey_run(), bailey_run_code() and bailey_start(); code keeps its variables. */
BAILEY_API int bailey_sandbox_run(bailey_sandbox *sandbox, const bailey_spec *spec,
                                  bailey_result **ret, struct bailey_error *err);
BAILEY_API int bailey_sandbox_run_code(bailey_sandbox *sandbox, const char *language,
                                       const char *code, bailey_result **ret,
                                       struct bailey_error *err);
BAILEY_API int bailey_sandbox_start(bailey_sandbox *sandbox, const bailey_spec *spec,
                                    bailey_job **ret, struct bailey_error *err);

/* A whole file; the path is absolute, or below /workspace. *ret_data is for bailey_free(), and a
 * NUL that is not counted follows it. */
BAILEY_API int bailey_sandbox_write(bailey_sandbox *sandbox, const char *path, const void *data,
                                    size_t length, struct bailey_error *err);
BAILEY_API int bailey_sandbox_read(bailey_sandbox *sandbox, const char *path, char **ret_data,
                                   size_t *ret_length, struct bailey_error *err);

/* ---- everything else that the server has ---- */

/*
 * One request of docs/rest.md: `path` with its query, encoded. `json` NULL: no body. A status from
 * 400 on is an error. *ret_data is for bailey_free(), and a NUL that is not counted follows it;
 * NULL arguments: the reply is not needed.
 */
BAILEY_API int bailey_call(bailey_engine *engine, const char *method, const char *path,
                           const char *json, char **ret_data, size_t *ret_length,
                           struct bailey_error *err);
BAILEY_API void bailey_free(void *data);

#ifdef __cplusplus
}
#endif

#endif
