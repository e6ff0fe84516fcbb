"""kernel.py - the Python kernel: runs the cells that come over descriptor 3 in one `__main__`.

    python3 kernel.py [WORKSPACE]

The protocol is in docs/kernels.md. Also imported by the zygote, which makes a Kernel before it forks
and lets it begin in the child (zygote_fork.py); importing has no effect and loads nothing but built-in
modules. What only some cells need is in files beside this one, read when first needed.

Guest code shares this process and may replace anything it can reach, so nothing here is trusted by
the engine. But a cell that does so by accident must not end the kernel: this module keeps a table of
builtins and references to functions of its own, a duplicate of every descriptor it needs, and puts
descriptors, streams and the handler of SIGINT back after each cell.

Works on Python 3.8 and later.
"""
import _ast
import _io
import _signal
import _thread
import posix
import sys
from posix import close, dup2, getpid, read, write, _exit

try:
    from _json import encode_basestring_ascii as quote
except ImportError:  # not the reference interpreter
    from json.encoder import py_encode_basestring_ascii as quote

join, encode = str.join, str.encode  # kept here, whatever a cell does to the type's own dictionary

# Functions of this module look up builtins here, whatever a cell does to the module `builtins`.
__builtins__ = dict(vars(sys.modules["builtins"]))

TEXT_MAX = 1 << 20  # bytes of text, HTML and JSON in an event
EVENTS_MAX = 1000  # of one cell
SOURCES_MAX = 500  # cells whose text is kept for tracebacks
CONTROL_FD = 250  # where descriptor 3 goes; 251 to 253 are duplicates of 0 to 2
WAY = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
TREE = WAY | _ast.PyCF_ONLY_AST
CO_COROUTINE = 0x80
CO_FUTURES = 0x1FE0000  # flags of a code object that `from __future__ import` sets
PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))

FOLDER = __file__.rpartition("/")[0] or "."
OURS = {__file__}  # files whose frames are not shown
PATH = [folder for folder in sys.path if folder not in ("", "/bailey/bin/modules", "/bailey/packages")]  # where the kernel's modules are
THIS = sys.modules[__name__]  # `__main__` will name another module
builtins = sys.modules["builtins"]
_helpers = {}
_the_kernel = None


def helper(name):
    """The module of that name beside this file; never one that a cell put on sys.path."""
    module = _helpers.get(name)
    if module is None:
        path = "%s/%s.py" % (FOLDER, name)
        with _io.open(path, encoding="utf-8") as file:
            source = file.read()
        module = type(sys)("bailey_" + name)
        module.__dict__.update(__builtins__=__builtins__, __file__=path, kernel=THIS)
        OURS.add(path)
        before, sys.path = getattr(sys, "path", None), PATH[:]  # a cell's folder may have a json.py
        try:
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        finally:
            sys.path = before
        _helpers[name] = module
    return module


def cut(text):
    """(text of at most TEXT_MAX bytes that is valid UTF-8 and has no NUL, whether it was cut)"""
    is_cut = len(text) > TEXT_MAX
    if is_cut:
        text = text[:TEXT_MAX]
    if not text.isascii():
        data = text.encode("utf-8", "replace")
        if len(data) > TEXT_MAX:
            data, is_cut = data[:TEXT_MAX], True
        text = data.decode("utf-8", "ignore")
    if "\0" in text:  # the receiver's JSON has none
        text = text.replace("\0", "\ufffd")
    return text, is_cut


class Kernel:
    """One interpreter, its descriptors and its cells. `is_open` is True while guest code may run:
    only then does SIGINT raise, and not in the middle of a line to the warden."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.folder = b""  # to be entered before a cell can run
        self.lock = _thread.RLock()
        self.is_open = self.is_writing = self.is_pending = False
        self.rest = b""
        self.outbox = []
        self.count = self.events = self.flags = 0
        self.sources = {}
        self.loop = self.pyplot = self.linecache = None
        self.last = None
        self.shown = []  # figures shown by this cell
        self.streams = None  # for a script, if they are made already
        self.flush_c = None  # flushes output of native code from C's own buffers
        self.depth = sys.getrecursionlimit()

    def begin(self, control_fd):
        """Called in the process that becomes the kernel."""
        self.pid = getpid()
        self.thread = _thread.get_ident()
        self.keep_descriptors(control_fd)
        _signal.signal(_signal.SIGINT, self.interrupt)
        posix.register_at_fork(after_in_child=self.forget)

    def keep_descriptors(self, control_fd):
        """Moves descriptors to high numbers, close-on-exec, where a cell does not use them by accident."""
        first = CONTROL_FD
        try:
            dup2(control_fd, first, False)
        except OSError:  # RLIMIT_NOFILE is lower
            first = 32
            dup2(control_fd, first, False)
        if control_fd != first:
            close(control_fd)
        self.control = first
        self.kept = []
        for fd in range(3):
            dup2(fd, first + 1 + fd, False)
            self.kept.append(first + 1 + fd)

    def forget(self):
        """In a child that a cell forked, which must not use anything of the kernel."""
        for fd in [self.control] + self.kept:
            try:
                close(fd)
            except OSError:
                pass
        self.control = -1

    def interrupt(self, _number, _frame):
        if self.is_writing:
            self.is_pending = True
        elif self.is_open:
            raise KeyboardInterrupt

    # --- the warden's side -------------------------------------------------------------------------

    def take(self, size):
        """Exactly `size` bytes; ends the process when there are no more."""
        parts, have = [self.rest], len(self.rest)
        while have < size:
            data = read(self.control, min(max(size - have, 65536), 1 << 20))
            if not data:
                _exit(0)
            parts.append(data)
            have += len(data)
        data = b"".join(parts) if len(parts) > 1 else self.rest
        self.rest = data[size:]
        return data[:size]

    def next_cell(self):
        """(id, flags, code, input, env) of the next message."""
        while b"\n" not in self.rest:
            try:
                data = read(self.control, 65536)
            except BlockingIOError:  # a cell has made it non-blocking
                posix.set_blocking(self.control, True)
                continue
            if not data or len(self.rest) > 200:
                _exit(0 if not data else 1)
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        word, number, flags, code, text, env = line.split(b" ")
        if word != b"cell":
            _exit(1)
        code, text, env = int(code), int(text), int(env)
        data = self.take(code + text + env)
        return number, flags, data[:code], data[code:code + text], data[code + text:]

    def put(self, lines):
        """Writes whole lines: SIGINT and other threads wait until they are out."""
        if self.control < 0 or getpid() != self.pid:
            return
        data = memoryview(encode(join("", lines), "ascii"))
        with self.lock:
            self.is_writing = True
            try:
                while data:
                    data = data[write(self.control, data):]
            except BlockingIOError:
                posix.set_blocking(self.control, True)
                self.put([str(data, "ascii")])
            except OSError as problem:  # the other end has gone, or a cell closed it
                _exit(0 if isinstance(problem, ConnectionError) else 1)
            finally:
                self.is_writing = False
        if self.is_pending:
            self.is_pending = False
            if self.is_open and _thread.get_ident() == self.thread:
                raise KeyboardInterrupt

    def send(self, line):
        """Sends one event, after queued ones. The last one of a cell's limit is reserved for an error."""
        self.events += 1
        if self.events < EVENTS_MAX:
            waiting, self.outbox = self.outbox, []
            self.put(waiting + [line])
        elif self.events == EVENTS_MAX:
            print("bailey: this cell has shown %d values; the rest is left out" % (EVENTS_MAX - 1),
                  file=sys.stderr)

    # --- values ------------------------------------------------------------------------------------

    def event(self, kind, value, **options):
        """The line of a result or display event."""
        if type(value) in PLAIN and not options:
            if type(value) in (str, bytes) and len(value) > TEXT_MAX:
                value = value[:TEXT_MAX]  # its repr is even longer, and cut below
            text, is_cut = cut(repr(value))
            data, truncated = '"text/plain":' + quote(text), '"text/plain"' if is_cut else ""
        else:
            bundle, keys = helper("kernel_values").bundle(value, self, **options)
            data = ",".join("%s:%s" % (quote(key), text) for key, text in bundle.items())
            truncated = ",".join(quote(key) for key in keys)
        count = ',"count":%d' % self.count if kind == "result" else ""
        flag = ',"truncated":[%s]' % truncated if truncated else ""
        return '{"type":"%s"%s,"data":{%s}%s}\n' % (kind, count, data, flag)

    def display(self, *values, raw=False, mime=None):
        """Shows values in their richest forms; raw=True: a MIME bundle, mime: text or bytes of it."""
        self.flush()
        for value in values:
            if self.control < 0 or getpid() != self.pid:
                print(repr(value))  # in a child that the cell forked
            elif raw or mime is not None:
                self.send(self.event("display", value, raw=raw, mime=mime))
            else:
                self.send(self.event("display", value))

    def error_event(self, problem):
        try:
            self.linecache.cache.update(self.sources)  # a cell may have emptied it
            name, value, text = self.errors.format_error(problem)
        except Exception:  # of guest code, or of a traceback module that a cell broke
            name, value, text = type(problem).__name__, "", ""
        return '{"type":"error","name":%s,"value":%s,"traceback":%s}\n' % tuple(
            quote(cut(part)[0]) for part in (name, value, text))

    def adopt(self, pyplot):
        """matplotlib.pyplot was imported by a cell, or before."""
        if self.pyplot is None:
            self.pyplot = pyplot
            helper("kernel_charts").adopt(pyplot, self)

    # --- a cell ------------------------------------------------------------------------------------

    def begin_cells(self):
        """Called before the first cell; a script does not need it."""
        import linecache
        import os
        self.linecache = linecache
        self.environ = os.environ
        self.errors, hooks = helper("kernel_errors"), helper("kernel_hooks")
        self.silence = hooks.Silence()
        self.space = make_main({}).__dict__
        self.environ.setdefault("MPLBACKEND", "agg")
        sys.argv = [""]
        if sys.path and sys.path[0].rstrip("/") in (FOLDER, FOLDER.rstrip("/")):
            sys.path[0] = ""
        elif "" not in sys.path:
            sys.path.insert(0, "")
        builtins.display = self.show = lambda *values, **how: self.display(*values, **how)
        builtins.__bailey_shell__ = lambda *what: helper("kernel_shell").run(self, *what)
        sys.meta_path.insert(0, hooks.Watch(self.adopt))
        self.make_streams(False)

    def make_streams(self, has_input):
        """New sys.stdin, stdout and stderr over 0 to 2, lines written as they end."""
        self.stdout = sys.stdout = sys.__stdout__ = _io.open(
            1, "w", 1, "utf-8", "surrogateescape", closefd=False)
        self.stderr = sys.stderr = sys.__stderr__ = _io.open(
            2, "w", 1, "utf-8", "backslashreplace", closefd=False)
        self.make_stdin(has_input)

    def make_stdin(self, has_input):
        self.stdin = self.silence
        if has_input:
            self.stdin = _io.open(0, "r", -1, "utf-8", "surrogateescape", closefd=False)
        sys.stdin = sys.__stdin__ = self.stdin

    def compile_cell(self, source, name):
        """(code of all but the last expression or None, code of the last expression or None)"""
        tree = None
        try:
            tree = compile(source, name, "exec", TREE | self.flags, True)
        except SyntaxError:
            if "!" not in source and "%" not in source:
                raise
        if tree is None:
            source = helper("kernel_shell").translate(source, name, TREE | self.flags)
            tree = compile(source, name, "exec", TREE | self.flags, True)
        body, last = tree.body, None
        if body and type(body[-1]) is _ast.Expr and not self.is_muted(source, body[-1]):
            last = _ast.Expression(body.pop().value)
        code = None
        if body:
            code = compile(tree, name, "exec", WAY | self.flags, True)
            self.flags |= code.co_flags & CO_FUTURES
        if last is not None:
            last = compile(last, name, "eval", WAY | self.flags, True)
        return code, last

    @staticmethod
    def is_muted(source, node):
        """Whether a semicolon follows the last expression."""
        if ";" not in source:
            return False
        lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")[node.end_lineno - 1:]
        tail = lines[0].encode("utf-8", "surrogatepass")[node.end_col_offset:]
        return tail.lstrip(b" \t\f)").startswith(b";")

    async def run_together(self, codes):
        """Runs a whole cell in the event loop, if some of it awaits."""
        value = None
        for code in codes:
            value = eval(code, self.space)
            if code.co_flags & CO_COROUTINE:
                value = await value
        return value

    def run_coroutine(self, coroutine):
        """Top-level await: one event loop for all cells, running while such a cell does."""
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # SIGINT came while the loop waited
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except BaseException:
                    pass
            elif not task.cancelled():
                task.exception()  # otherwise the loop warns that it was never retrieved
            raise

    def execute(self, source, name):
        code, last = self.compile_cell(source, name)
        value, codes = None, [part for part in (code, last) if part is not None]
        if any(part.co_flags & CO_COROUTINE for part in codes):
            value = self.run_coroutine(self.run_together(codes))
        else:
            for part in codes:
                value = eval(part, self.space)
        if last is not None and value is not None:
            if "_" not in self.space or self.space["_"] is self.last:
                self.space["_"] = self.last = value
            self.outbox.append(self.event("result", value))

    @staticmethod
    def flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # closed, or replaced by a cell
                pass

    def settle(self):
        """At the end of a cell: shows its open figures and flushes its streams."""
        if self.pyplot is None:
            pyplot = sys.modules.get("matplotlib.pyplot")
            if pyplot is not None and hasattr(pyplot, "show"):
                self.adopt(pyplot)
        if self.pyplot is not None:
            helper("kernel_charts").show_all(self)
        self.flush()

    def guarded(self, step, *args):
        """Runs a step that may run guest code; returns the exception, or None."""
        try:
            try:
                self.is_open = True
                step(*args)
            finally:
                self.is_open = False
        except BaseException as problem:
            self.is_open = False
            return problem
        return None

    def enter_folder(self):
        """Enters the folder of cells; returns an error text or None. No cell runs before it succeeds."""
        try:
            posix.chdir(self.folder.decode("utf-8", "surrogateescape"))
        except OSError as problem:
            return problem
        self.folder = b""
        return None

    def set_environment(self, data):
        """Sets variables; returns what restores the old values."""
        before = []
        for pair in data.split(b"\0"):
            name, sign, value = pair.partition(b"=")
            if name and sign:
                name = name.decode("utf-8", "surrogateescape")
                before.append((name, self.environ.get(name)))
                self.environ[name] = value.decode("utf-8", "surrogateescape")
        return before

    def give_input(self, data):
        """Makes descriptor 0 read `data`."""
        fd = posix.memfd_create("stdin")
        try:
            view = memoryview(data)
            while view:
                view = view[write(fd, view):]
            posix.lseek(fd, 0, 0)
            dup2(fd, 0)
        finally:
            close(fd)

    def restore(self, before):
        """Restores what a cell may have changed and the next one must find unchanged."""
        for fd in range(3):
            try:
                dup2(self.kept[fd], fd)
            except OSError:
                pass  # closed by the cell, like everything else it closed
        try:
            self.stdout.flush()
            self.stderr.flush()
            is_whole = not (self.stdout.closed or self.stderr.closed)
        except (ValueError, OSError):
            is_whole = False
        if not is_whole:
            self.make_streams(False)
        sys.stdout, sys.stderr = self.stdout, self.stderr
        if self.stdin is not self.silence:
            self.make_stdin(False)
        sys.stdin = self.stdin
        if _signal.getsignal(_signal.SIGINT) != self.interrupt:
            _signal.signal(_signal.SIGINT, self.interrupt)
        if sys.getrecursionlimit() < self.depth:
            sys.setrecursionlimit(self.depth)
        for name, value in before:
            if value is None:
                self.environ.pop(name, None)
            else:
                self.environ[name] = value

    def remember(self, name, source):
        """For tracebacks and inspect.getsource(); split into lines only when requested."""
        cache = self.linecache.cache
        if type(cache) is not dict:
            self.linecache.cache = cache = {}
        self.sources[name] = cache[name] = (lambda: source,)
        if len(self.sources) > SOURCES_MAX:
            oldest = next(iter(self.sources))
            del self.sources[oldest]
            cache.pop(oldest, None)

    def leave_child(self, problem):
        """A child that a cell forked has come back from the cell: it must not be a second kernel."""
        status = 0
        if isinstance(problem, SystemExit):
            status = exit_status(problem)
        elif problem is not None:
            status = 1
            self.errors.strip_chain(problem)
            sys.excepthook(type(problem), problem, problem.__traceback__)
        try:
            self.flush()
        finally:
            _exit(status)

    def run_cell(self, number, code, text, flags, env):
        if self.linecache is None:
            self.begin_cells()
        self.count += 1
        self.events = 0
        self.outbox, self.shown = [], []
        name = "Cell In[%d]" % self.count
        problem = None
        if b"f" in flags:
            self.folder, _, env = env.partition(b"\0")
        if self.folder:
            problem = self.enter_folder()
        before = self.set_environment(env) if env else ()
        if b"i" in flags:
            self.give_input(text)
            self.make_stdin(True)
        try:
            source = code.decode("utf-8-sig")
            self.remember(name, source)
        except UnicodeDecodeError as wrong:
            problem = wrong
        if problem is None:
            problem = self.guarded(self.execute, source, name)
        sys.settrace(None)
        sys.setprofile(None)
        if getpid() != self.pid:
            self.leave_child(problem)
        failure = self.guarded(self.settle)
        problem = problem or failure
        if isinstance(problem, SystemExit) and problem.code in (None, 0):
            problem = None
        if problem is not None:
            if self.guarded(lambda: self.outbox.append(self.error_event(problem))) is not None:
                self.outbox.append('{"type":"error","name":%s,"value":"","traceback":""}\n'
                                   % quote(type(problem).__name__))
        self.restore(before)
        self.outbox.append("end %s %d\n" % (number.decode("ascii"), problem is not None))
        self.put(self.outbox)

    def serve(self):
        """Runs cells until descriptor 3 is at its end."""
        number = None
        while True:
            try:
                number, flags, code, text, env = self.next_cell()
            except (OSError, ValueError):
                _exit(1)  # a cell closed the descriptor, or read from it
            if b"s" in flags:
                return run_script(self, number, code, text if b"i" in flags else None, env)
            try:
                self.run_cell(number, code, text, flags, env)
            except BaseException as problem:  # a cell broke something the kernel needs: it gets the error
                self.is_open = False
                sys.setrecursionlimit(max(self.depth, 1000))
                if getpid() != self.pid:
                    _exit(1)
                self.put(['{"type":"error","name":"KernelError","value":%s,"traceback":""}\n'
                          % quote(cut(repr(problem))[0]), "end %s 1\n" % number.decode("ascii")])


def make_main(members):
    """A new, empty module __main__."""
    main = type(sys)("__main__")
    main.__dict__.update(members, __builtins__=builtins)
    sys.modules["__main__"] = main
    return main


def exit_status(problem):
    """The exit status that Python would use for this SystemExit; values that are not numbers go to stderr."""
    code = problem.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def run_script(kernel, number, code, text, env):
    helper("kernel_script").run(kernel, number, code, text, env)


def preload():
    """For the zygote, before it forks: loads everything that cells load lazily, except asyncio."""
    import linecache  # noqa: F401
    import os
    os.environ.setdefault("MPLBACKEND", "agg")
    for name in ("kernel_errors", "kernel_hooks", "kernel_values", "kernel_shell", "kernel_charts", "kernel_script"):
        helper(name)


def main(control_fd=3, workspace="/workspace"):
    """Serves until the end of `control_fd`; does not return."""
    global _the_kernel
    _the_kernel = Kernel(workspace)
    _the_kernel.begin(control_fd)
    _the_kernel.serve()


if __name__ == "__main__":
    if sys.argv[2:3] == ["ahead"]:  # no cell waits for it yet
        preload()
    # Called indirectly: up to Python 3.9 a frame has the builtins of its caller, if both are of one module.
    eval("main(3, workspace)", {"main": main, "workspace": (sys.argv + ["/workspace"])[1]})
