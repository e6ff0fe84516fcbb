/*
 * run_private.h - what a missing module leads to: looked for in /workspace, fetched, and the code
 * runs again; private to the files of session/.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_RUN_PRIVATE_H
#define BAILEY_SESSION_RUN_PRIVATE_H

#include "recipe/recipe.h"
#include "session/installer.h"
#include "session/layer_link.h"
#include "session/layers.h"
#include "session/missing.h"

/*
 * local_module.c: is there a /workspace/NAME or NAME.py? Then the module is the session's own, and
 * no package of that name is looked for. done() once, unless local_module_leave() came before.
 */
struct local_module;
int local_module_look(struct box *box, const char *module, void (*done)(void *ctx, bool is_there),
                      void *ctx, struct local_module **ret, struct error *err);
void local_module_leave(struct local_module *look); /* NULL is fine */
void local_module_error(const char *module, struct error *err);

/* A one-shot run (run.c, run_retry.c). */
struct run {
    struct run *next;
    struct session_manager *manager;
    const struct session_language *language;
    struct recipe recipe;
    const char *code, *input;
    json_t *keeper; /* owns code and input; NULL: they are copies of our own */
    size_t code_sent, input_length, input_sent;
    bool has_input; /* some of it is still to be sent */
    bool keeps_nothing;
    size_t (*sink)(void *ctx, int stream, const void *data, size_t length); /* NULL: none */
    struct result result;
    void (*done)(void *ctx, struct result *result); /* NULL: cancelled */
    void *ctx;

    char tenant[TENANT_MAX];
    uint64_t held_memory;      /* of its tenant's quota */
    bool is_counted;           /* as one that runs */
    struct account *account;   /* NULL: no memory for it */
    struct settings *settings; /* of its caller; NULL: the daemon's */
    uint64_t make_asked_ns;
    char key[ID_MAX]; /* of its box */
    char layer[LAYER_TEXT];
    unsigned tier;
    uint32_t make_serial, number;
    struct box *box;
    struct pump pump;
    uint32_t call;
    struct import_check *import_check;   /* of its imports, under way */
    const struct provider_row *provider; /* that made its box; NULL: none yet */
    bool warden_owns_kernel;             /* its end is the box's to tell */
    uint32_t kernel;                     /* 0: none came with the box */
    bool has_status;                     /* how the kernel ended */
    int status;                          /* as wait(2) */
    struct usage told;           /* by who waited for it, or the warden: not every group counts */
    uint64_t counted_cpu_us;     /* of its tenant's quota */
    bool has_ended;              /* the cell; its status is waited for */
    bool is_running;             /* the program */
    bool has_room[2];            /* the sink takes more of the stream */
    bool is_stopped;             /* by its caller, who waits for the result */
    bool is_over;                /* the box is to be given back */
    struct run_list *list;       /* of what it left, under way */
    struct run_files *run_files; /* files in and out, packages; NULL: none */
    struct reactor_timer *timer;

    /* A module was missing, and may be installed. */
    char module[LIMIT_MODULE + 1]; /* empty: none was */
    char *wanted[2];               /* strv of the package; [0] NULL: none is looked for */
    char package[LIMIT_REQUIREMENT + 1];
    struct local_module *look;         /* under way */
    struct installation *installation; /* under way */
    struct layer_link *link;           /* under way */
    char package_layer[LAYER_TEXT];    /* bound in its second box; empty: it has none */
    json_t *install;                   /* for the result */
    bool is_again;                     /* it is the second time */

    /* Its pip may ask for packages. */
    bool hears_pip; /* its box has a folder for them */
    struct guest_install *guest_install;
    json_t *packages; /* what its box has by then; NULL: none */
    char **asked;     /* strv: what they came from; NULL: nothing yet */
};
int run_make(struct run *run, struct error *err); /* the box */
void run_over(struct run *run, const struct error *err);

/* run.c */
extern const struct exec_events run_kernel_events; /* of a kernel that came with the box: ignored */
void run_take_kernel(struct run *run, const struct made *made);
/* Its box is one of this machine, and so is its interpreter. 0 or -ENOMEM. */
int run_fall_back(struct run *run, const struct made *made);
char **run_cell_env(const struct run *run, struct error *err); /* the words too; strv, or NULL */
/* A step went well: the next one begins, or run_over() follows. */
void run_step_done(struct run *run, enum recipe_step step);
/* RECIPE_OUTPUT begins: true: run_over() follows. */
bool run_list(struct run *run);
void run_list_leave(struct run *run);

/* run_files.c: what a run brings along and takes home */
int run_files_new(struct run *run, const struct run_spec *spec, struct error *err);
void run_files_free(struct run *run);
bool run_files_needs(const struct run *run);          /* packages, before there is a box */
char **run_files_requirements(const struct run *run); /* strv, borrowed; NULL: none */
int run_files_install(struct run *run, struct error *err);
/* The box stands: its files are put there, then RECIPE_FILES is done. */
void run_files_put(struct run *run);
/* One entry of /tmp/output, while it is listed; false: not wanted, only counted. */
bool run_files_entry(struct run *run, const struct box_entry *entry);
/* All of it is known: true: something is fetched, and run_listed() comes when that is over. */
bool run_files_fetch(struct run *run);
void run_listed(struct run *run);      /* run.c */
void run_files_leave(struct run *run); /* nothing is fetched any more */

/* guest_install.c: true: ready() follows in a turn of its own, or the run ends before. */
bool guest_install_of_run(struct run *run, void (*ready)(struct run *run));

/* run_packages.c: packages that the box's pip asks for */
bool run_packages_wanted(const struct run *run, const struct run_spec *spec);
int run_packages_folder(struct run *run, struct error *err); /* before the box is made */
int run_packages_install(struct run *run, const char *const *packages,
                         const struct install_events *events, void *ctx, struct installation **ret,
                         struct error *err);
void run_packages_free(struct run *run); /* before its box goes; nothing is heard any more */

/* run_retry.c */
void run_install_audit(const struct run *run, const char *const *wanted,
                       const struct install_end *end, const struct error *err);
int run_link_start(struct run *run, const struct install_end *end, struct error *err);
/* The program has ended: true: it is looked at first, and run_over() follows. */
bool run_look(struct run *run);
/* Its box is gone: true: something is fetched, and it runs again or ends later. */
bool run_install(struct run *run);
void run_link(struct run *run);  /* the timer's turn while `link` is set */
void run_leave(struct run *run); /* gives up what is under way, and removes what was made */
bool runs_name(const struct session_manager *manager, const char *layer);

#endif
