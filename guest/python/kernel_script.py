"""kernel_script.py - one program instead of cells: what `python3 main.py` would do, in this process.
Loaded by kernel.py, which is `kernel` here.

The interpreter is never finalised: that would touch every page that it shares with the zygote. All
steps of Python's end that a program can observe are done, in Python's order.
"""
import _signal
import atexit
import os
import sys

_exit, kill, getpid, fstat, write = os._exit, os.kill, os.getpid, os.fstat, os.write


def run(host, number, code, text, env):
    """Does not return."""
    goodbye = Goodbye(host, number)
    words, env = take_words(env)
    path = host.workspace.rstrip("/") + "/" + (words[0] if words else "main.py")
    prepare(host, words or [path], path, text, env)
    try:
        with kernel._io.open(path, "wb") as file:
            file.write(code)
    except OSError as problem:
        sys.stderr.write("bailey: writing %s: %s\n" % (path, problem.strerror))
        finish(1, goodbye, host.flush_c)
    main = kernel.make_main({"__file__": path, "__loader__": None, "__package__": None,
                             "__spec__": None, "__doc__": None, "__cached__": None})
    status = 1
    try:
        exec(compile(code, path, "exec", dont_inherit=True), main.__dict__)
        status = 0
    except SystemExit as problem:
        status = kernel.exit_status(problem)
    except BaseException as problem:
        status = report(problem)
    # A child that the program forked ends in the same way.
    finish(status, goodbye if getpid() == host.pid else None, host.flush_c)


class Goodbye:
    """Reports the status before the process ends, because ending takes longer."""

    def __init__(self, host, number):
        self.fd = host.control
        self.number = number
        self.identity = self.look()

    def look(self):
        found = fstat(self.fd)
        return found.st_dev, found.st_ino

    def say(self, status):
        try:
            if self.look() == self.identity:  # else the program has closed it and reused the number
                write(self.fd, b"exit %s %d\n" % (self.number, status))
        except OSError:
            pass  # the warden sees the end anyway


def take_words(env):
    """(name of the script and its arguments, the variables): arguments begin with '='."""
    words, rest = [], []
    for entry in env.split(b"\0"):
        if entry.startswith(b"="):
            words.append(entry[1:].decode("utf-8", "surrogateescape"))
        else:
            rest.append(entry)
    return words, b"\0".join(rest)


def prepare(host, words, path, text, env):
    """Streams, arguments and environment of a program."""
    host.environ = os.environ
    host.set_environment(env)
    if text is not None:
        host.give_input(text)
    stdin, stdout, stderr = host.streams or make_streams()
    if text is not None and host.streams:
        stdin = make_stdin()
    sys.stdin = sys.__stdin__ = stdin
    sys.stdout = sys.__stdout__ = stdout
    sys.stderr = sys.__stderr__ = stderr
    if os.environ.get("PYTHONUNBUFFERED"):
        stdout.reconfigure(line_buffering=True)
    sys.argv = words
    sys.orig_argv = [sys.executable] + words
    folder = path.rpartition("/")[0]
    if sys.path and sys.path[0] in (kernel.FOLDER, ""):
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def make_stdin():
    return named("<stdin>", kernel._io.open(0, "r", -1, "utf-8", "surrogateescape", closefd=False))


def make_streams():
    opened = kernel._io.open
    return (make_stdin(),
            named("<stdout>", opened(1, "w", -1, "utf-8", "surrogateescape", closefd=False)),
            named("<stderr>", opened(2, "w", 1, "utf-8", "backslashreplace", closefd=False)))


def named(name, stream):
    stream.buffer.raw.name = name
    return stream


def strip(problem):
    """Removes the kernel's frames from its traceback."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in kernel.OURS:
        trace = trace.tb_next
    problem.__traceback__ = trace
    return trace


def report(problem):
    """A traceback on stderr, by the program's own hook if it has one."""
    trace = strip(problem)
    if isinstance(problem, KeyboardInterrupt):
        sys.excepthook(type(problem), problem, trace)
        return -_signal.SIGINT
    try:
        sys.excepthook(type(problem), problem, trace)
    except SystemExit as other:
        return kernel.exit_status(other)
    except BaseException as other:
        other.__context__ = None
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(other), other, strip(other))
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(problem), problem, trace)
    return 1


def finish(status, goodbye, flush_c):
    """Ends threads, atexit, streams; then the process, by SIGINT if that ended the program."""
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
    except BaseException as problem:
        sys.__excepthook__(type(problem), problem, problem.__traceback__)
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass  # it was printed already
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            if stream is sys.stdout:
                status = status or 120  # as Python does
    (flush_c or find_and_flush_c)()
    if status < 0:
        _signal.signal(-status, _signal.SIG_DFL)
        kill(getpid(), -status)
    if goodbye is not None:
        goodbye.say(status)
    _exit(status)


def find_and_flush_c():
    """Flushes C's own buffers, if a library with native code is loaded."""
    ctypes = sys.modules.get("ctypes")
    if ctypes is not None:
        try:
            ctypes.CDLL(None).fflush(None)
        except BaseException:
            pass
