/*
 * module.c - the native part of a zygote, as a Python module: zygote.py calls start() before its
 * imports, and serve() after them. serve() returns in kernels only.
 *
 * Why a module in Python's limited API: one build serves every Python from 3.8 on, without ctypes
 * (which some distributions leave out, and whose machinery every kernel would carry), and the fork
 * uses Python's own hooks around a native call: PyOS_BeforeFork(), fork(3) with the handlers of
 * malloc and BLAS libraries, then in the child the isolation (sandbox/join.c), and only then
 * PyOS_AfterFork_Child(), whose hooks are the first Python code that runs.
 *
 * The zygote has no capability. Its uid owns the user namespaces of the boxes it serves, and the
 * owner of a user namespace has all capabilities in it. So a vfork(2) child, which shares the
 * zygote's memory and copies nothing, enters the box's namespaces and forks there; that fork has
 * its own copy of the memory and returns into the interpreter, and the zygote becomes its parent
 * (as a subreaper) when the vfork child ends. The zygote cannot enter the namespaces itself,
 * because it could not return.
 *
 * The zygote stays single-threaded: it calls no code of the modules it imported. It is not dumpable
 * from start() on, and neither is a kernel until its seccomp filter is active.
 *
 * A zygote that is itself a guest, in a container (warden/zygote.c), has the full isolation, and
 * its kernels inherit it.
 */
#define Py_LIMITED_API 0x03080000
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/filter.h"
#include "sandbox/sandbox.h"
#include "sys/packet.h"
#include "zygote/memory.h"
#include "zygote/zygote.h"

#define GUEST_ID 1000 /* uid in the box, as in boxes/boxes_private.h */

/* One per process, set by start(). */
static struct {
    int signal_fd;
} zygote = {-1};

/* What the vfork child leaves in the zygote's memory. */
static struct {
    volatile pid_t pid;
    volatile int error;
} forked;

static void object_drop(PyObject **object)
{
    Py_XDECREF(*object);
}

static void say(int fd, const struct zygote_word *word)
{
    while (send(fd, word, sizeof(*word), MSG_NOSIGNAL) < 0) {
        if (errno != EINTR)
            _exit(1); /* the launcher is gone: the zygote ends, and kernels end with their boxes */
    }
}

static void oom_score(const char *score)
{
    if (pwrite(ZYGOTE_OOM_FD, score, strlen(score), 0) < 0)
        return; /* kernels inherit the zygote's own value then */
}

/* ---- in the kernel ---- */

static void plan_of(const struct zygote_request *request, struct sandbox_plan *plan)
{
    bool has_split = request->layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_UID_SPLIT);

    *plan = (struct sandbox_plan){
        .has_namespaces = true,
        .has_split = has_split,
        .clears_groups = has_split, /* as mapped by boxes/ids.c */
        .guest_id = GUEST_ID,
        .share_path = {[SHARE_WORKSPACE] = "/workspace"},
        .guest_filter = &filter_guest,
        .rlimits = request->rlimits,
        .rlimit_count = request->rlimit_count,
        .cpu_count = request->cpu_count,
    };
}

/* Must not return to Python unless the whole isolation is active. */
static void become_kernel(const struct zygote_request *request, const int fds[_ZYGOTE_FD_MAX],
                          uint64_t heard_ns)
{
    struct zygote_word word = {.type = ZYGOTE_JOINED,
                               .serial = request->serial,
                               .heard_ns = heard_ns,
                               .forked_ns = clock_now_ns()};
    struct guest_join join = {
        .is_from_outside = fds[ZYGOTE_FD_USER] >= 0,
        .out_fd = fds[ZYGOTE_FD_OUT],
        .err_fd = fds[ZYGOTE_FD_ERR],
        .socket_fd = fds[ZYGOTE_FD_SOCKET],
        .told_fd = ZYGOTE_CONTROL_FD,
        .ruleset_fd = fds[ZYGOTE_FD_RULESET],
    };
    struct sandbox_plan plan;
    int r;

    memcpy(join.group_fd, &fds[ZYGOTE_FD_GROUP], sizeof(join.group_fd));
    plan_of(request, &plan);
    r = sandbox_join_guest(&plan, request->layers, &join, &word.stage);
    if (r < 0) {
        word.type = ZYGOTE_FAILED;
        word.error = (uint16_t)-r;
        say(join.told_fd, &word);
        _exit(127);
    }
    word.pid = (int32_t)getpid();
    word.joined_ns = clock_now_ns();
    say(join.told_fd, &word);
    close(join.told_fd);
    prctl(PR_SET_DUMPABLE, 1);
}

/* ---- in the zygote ---- */

static void close_fds(const int fds[_ZYGOTE_FD_MAX])
{
    for (int i = 0; i < _ZYGOTE_FD_MAX; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

/*
 * Forks a grandchild whose parent has ended when this returns: PID 1, the warden, has adopted it by
 * then. 0 in the grandchild, else a pid that is no longer valid; or -1 with errno.
 */
static pid_t fork_orphan(void)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        pid = fork();
        if (pid != 0)
            _exit(pid < 0 ? errno : 0);
        return 0;
    }
    while (pid > 0 && waitpid(pid, &status, __WALL) < 0) {
        if (errno != EINTR)
            return -1;
    }
    if (pid > 0 && status != 0) {
        errno = WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
        return -1;
    }
    return pid;
}

/* True in the kernel. The zygote is in the box already: no namespaces are entered. */
static bool fork_inside(const struct zygote_request *request, const int fds[_ZYGOTE_FD_MAX])
{
    struct zygote_word word = {.type = ZYGOTE_FORKED, .serial = request->serial};
    uint64_t heard_ns = clock_now_ns();
    pid_t pid;

    PyOS_BeforeFork();
    pid = fork_orphan();
    if (pid == 0) {
        become_kernel(request, fds, heard_ns);
        PyOS_AfterFork_Child();
        return true;
    }
    word.error = (uint16_t)(pid < 0 ? errno : 0);
    PyOS_AfterFork_Parent();
    say(ZYGOTE_CONTROL_FD, &word);
    return false;
}

/*
 * In the vfork child: 0, or an errno. The user namespace comes first: it gives the rights to enter
 * the others.
 */
static int enter_box(const int fds[_ZYGOTE_FD_MAX])
{
    static const int kinds[] = {
        [ZYGOTE_FD_USER] = CLONE_NEWUSER, [ZYGOTE_FD_PID] = CLONE_NEWPID,
        [ZYGOTE_FD_IPC] = CLONE_NEWIPC,   [ZYGOTE_FD_UTS] = CLONE_NEWUTS,
        [ZYGOTE_FD_NET] = CLONE_NEWNET,   [ZYGOTE_FD_CGROUP] = CLONE_NEWCGROUP,
        [ZYGOTE_FD_MNT] = CLONE_NEWNS,
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (fds[i] >= 0 && setns(fds[i], kinds[i]) < 0)
            return errno;
    }
    return 0;
}

/*
 * 0 in the kernel, in the box; else its pid, by then a child of the zygote; or -1 with errno. The
 * vfork child runs on the zygote's stack while the zygote waits; only its own fork, which has a
 * copy of that stack, returns from here.
 */
static __attribute__((noinline)) pid_t fork_into_box(const int fds[_ZYGOTE_FD_MAX])
{
    pid_t helper;

    forked.pid = -1;
    forked.error = 0;
    helper = vfork();
    if (helper == 0) {
        forked.error = enter_box(fds);
        if (forked.error)
            _exit(1);
        forked.pid = fork();
        if (forked.pid == 0)
            return 0;
        forked.error = forked.pid < 0 ? errno : 0;
        _exit(0);
    }
    if (helper < 0)
        return -1;
    while (waitpid(helper, NULL, __WALL) < 0 && errno == EINTR)
        ;
    errno = forked.error ? forked.error : ECHILD; /* it was killed before it could report */
    return forked.error ? -1 : forked.pid;
}

/* True in the kernel. */
static bool fork_kernel(const struct zygote_request *request, const int fds[_ZYGOTE_FD_MAX])
{
    struct zygote_word word = {.type = ZYGOTE_FORKED, .serial = request->serial};
    uint64_t heard_ns = clock_now_ns();
    pid_t pid;

    if (fds[ZYGOTE_FD_USER] < 0)
        return fork_inside(request, fds);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    oom_score(ZYGOTE_OOM_SCORE); /* inherited */
    PyOS_BeforeFork();
    pid = fork_into_box(fds);
    if (pid == 0) {
        become_kernel(request, fds, heard_ns);
        PyOS_AfterFork_Child();
        return true;
    }
    word.error = (uint16_t)(pid < 0 ? errno : 0);
    word.pid = pid < 0 ? 0 : (int32_t)pid;
    PyOS_AfterFork_Parent();
    oom_score("0");
    say(ZYGOTE_CONTROL_FD, &word);
    return false;
}

/* Receives one whole message: 1, 0 (none yet), or exits if the launcher is gone. */
static int receive(struct zygote_request *request, int fds[_ZYGOTE_FD_MAX])
{
    int came[_ZYGOTE_FD_MAX];
    size_t count = _ZYGOTE_FD_MAX, at = 0;
    ssize_t length =
        packet_receive(ZYGOTE_CONTROL_FD, request, sizeof(*request), came, &count, MSG_DONTWAIT);

    if (length == -EAGAIN)
        return 0;
    if (length != sizeof(*request) || request->rlimit_count > ZYGOTE_RLIMITS_MAX ||
        count != (size_t)__builtin_popcount(request->fds & ((1u << _ZYGOTE_FD_MAX) - 1)))
        _exit(length == 0 ? 0 : 1);
    for (int i = 0; i < _ZYGOTE_FD_MAX; i++)
        fds[i] = request->fds & (1u << i) ? came[at++] : -1;
    return 1;
}

/* Only the zygote, as the parent, learns how a kernel ended. */
static void reap(void)
{
    struct signalfd_siginfo info;
    struct rusage usage;
    int status;
    pid_t pid;

    while (read(zygote.signal_fd, &info, sizeof(info)) == sizeof(info))
        ;
    while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0) {
        struct zygote_word word = {
            .type = ZYGOTE_ENDED,
            .pid = (int32_t)pid,
            .status = status,
            .cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec),
            .max_rss_bytes = (uint64_t)usage.ru_maxrss * 1024,
        };

        say(ZYGOTE_CONTROL_FD, &word);
    }
}

static PyObject *serve(PyObject *self, PyObject *none)
{
    struct zygote_word ready = {.type = ZYGOTE_READY};
    struct pollfd polled[] = {{.fd = ZYGOTE_CONTROL_FD, .events = POLLIN},
                              {.fd = zygote.signal_fd, .events = POLLIN}};
    struct zygote_request request;
    int fds[_ZYGOTE_FD_MAX];

    (void)self;
    (void)none;
    if (zygote.signal_fd < 0) {
        PyErr_SetString(PyExc_RuntimeError, "not started");
        return NULL;
    }
    memory_settle();
    say(ZYGOTE_CONTROL_FD, &ready);
    for (;;) {
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            _exit(1);
        if (polled[1].revents)
            reap();
        if (!polled[0].revents || receive(&request, fds) == 0)
            continue;
        if (fork_kernel(&request, fds)) {
            zygote.signal_fd = -1; /* closed */
            return PyBool_FromLong(request.is_prewarmed);
        }
        close_fds(fds);
    }
}

static PyObject *start(PyObject *self, PyObject *none)
{
    sigset_t set;

    (void)self;
    (void)none;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    zygote.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (zygote.signal_fd < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    fcntl(ZYGOTE_CONTROL_FD, F_SETFD, FD_CLOEXEC);
    fcntl(ZYGOTE_OOM_FD, F_SETFD, FD_CLOEXEC);
    memory_arenas();
    Py_RETURN_NONE;
}

/* ---- helpers for kernels, which avoid writing to many pages ---- */

/*
 * numpy's global generator: bitgen_t begins with a pointer to its state, and the state of MT19937
 * with its key, followed by the position in it.
 */
struct twister {
    uint32_t key[624];
    int position;
};

static struct twister *twister_of(PyObject *capsule)
{
    struct twister **generator = PyCapsule_GetPointer(capsule, "BitGenerator");

    return generator ? *generator : NULL;
}

static PyObject *has_key(PyObject *self, PyObject *args)
{
    const struct twister *twister;
    PyObject *capsule, *key;

    (void)self;
    if (!PyArg_ParseTuple(args, "OS", &capsule, &key) || !(twister = twister_of(capsule)))
        return NULL;
    return PyBool_FromLong(PyBytes_Size(key) == (Py_ssize_t)sizeof(twister->key) &&
                           memcmp(twister->key, PyBytes_AsString(key), sizeof(twister->key)) == 0);
}

static PyObject *set_key(PyObject *self, PyObject *capsule)
{
    struct twister *twister = twister_of(capsule);
    char *key;

    (void)self;
    if (!twister)
        return NULL;
    key = (char *)twister->key;
    for (size_t at = 0; at < sizeof(twister->key);) {
        ssize_t length = getrandom(key + at, sizeof(twister->key) - at, 0);

        if (length < 0 && errno != EINTR)
            return PyErr_SetFromErrno(PyExc_OSError);
        at += length > 0 ? (size_t)length : 0;
    }
    twister->key[0] |= 0x80000000u; /* not all zero */
    twister->position = (int)ARRAY_SIZE(twister->key);
    Py_RETURN_NONE;
}

static PyObject *flush(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    fflush(NULL);
    Py_RETURN_NONE;
}

#define NO_SITE_AT 6 /* index in sys.flags, in every Python 3 */

/*
 * sys.flags with no_site as without -S: programs that a guest starts with the flags of its
 * interpreter then have site-packages, as with a cold kernel.
 */
static PyObject *flags_with_site(PyObject *self, PyObject *flags)
{
    CLEANUP(object_drop)
    PyObject *number = PyObject_GetAttrString((PyObject *)Py_TYPE(flags), "n_fields");
    Py_ssize_t count = number ? PyLong_AsSsize_t(number) : -1;
    PyObject *made = count > NO_SITE_AT ? PyStructSequence_New(Py_TYPE(flags)) : NULL;

    (void)self;
    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *value = PyStructSequence_GetItem(flags, i);

        if (i == NO_SITE_AT) {
            value = PyLong_FromLong(0);
        } else if (value) {
            Py_INCREF(value);
        }
        PyStructSequence_SetItem(made, i, value);
    }
    if (!made && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "these are no sys.flags");
    return made;
}

static PyMethodDef methods[] = {
    {"start", start, METH_NOARGS, "Makes the process not dumpable, and watches its children."},
    {"serve", serve, METH_NOARGS,
     "Forks kernels; returns in each of them, True for a prewarmed one."},
    {"flags_with_site", flags_with_site, METH_O, "sys.flags of an interpreter without -S."},
    {"has_key", has_key, METH_VARARGS, "Whether this is the key of that numpy generator."},
    {"set_key", set_key, METH_O, "Sets a new key, from the Linux kernel's random numbers."},
    {"flush", flush, METH_NOARGS, "Flushes output of native code from C's own buffers."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_zygote", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit__zygote(void);
PyMODINIT_FUNC PyInit__zygote(void)
{
    return PyModule_Create(&definition);
}
