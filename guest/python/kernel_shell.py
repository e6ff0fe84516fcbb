"""kernel_shell.py - lines of a cell that are not Python: `!command` and `name = !command` run in
bash, and so does `%pip`; `%matplotlib` does nothing; other % lines are refused with what to do instead.
Loaded by kernel.py, which is `kernel` here.

The parser says which line it cannot read, and only such lines are looked at: valid Python is never
changed, whatever its strings contain.
"""
import _signal
import os
import re

posix_spawnp, waitpid, pipe, close, read, kill = (
    os.posix_spawnp, os.waitpid, os.pipe, os.close, os.read, os.kill)

LINE = re.compile(r"^(?P<indent>\s*)(?:(?P<target>[A-Za-z_][\w.,\s\[\]'\"]*?)\s*=\s*)?"
                  r"(?P<sign>!!?|%%?)(?P<text>.*)$", re.S)
NAME = re.compile(r"\{([A-Za-z_]\w*)\}")
LINES_MAX = 2000  # such lines in one cell


def translate(source, name, flags):
    """The cell as Python; raises the parser's error if it has another reason."""
    lines = source.split("\n")
    for _ in range(LINES_MAX):
        try:
            compile("\n".join(lines), name, "exec", flags, True)
            break
        except SyntaxError as problem:
            wrong = problem
        at = (wrong.lineno or 0) - 1
        if not 0 <= at < len(lines) or not translate_line(lines, at, name):
            raise wrong
    return "\n".join(lines)


def translate_line(lines, at, name):
    """Rewrites the line, and empties those that continue it; False: not such a line."""
    match = LINE.match(lines[at])
    if match is None:
        return False
    sign, text = match.group("sign"), match.group("text")
    if sign.startswith("%"):
        if match.group("target") or not re.match(r"%?[A-Za-z]", text):
            return False
        if text.split()[0] == "pip" and sign == "%":
            sign = "!"  # the pip of the box is that of this interpreter
        elif text.split()[0] != "matplotlib" or sign == "%%":
            refuse(sign + text, at, name)
        else:
            lines[at] = match.group("indent") + "pass"
            return True
    last = at
    while text.endswith("\\") and last + 1 < len(lines):
        last += 1
        text += "\n" + lines[last]
        lines[last] = ""
    call = "__bailey_shell__(%r, %r)" % (text, bool(match.group("target") or sign == "!!"))
    target = match.group("target")
    lines[at] = match.group("indent") + (target + " = " if target else "") + call
    return True


def refuse(text, at, name):
    word = text.split()[0]
    advice = "write it in Python"
    if word in ("%conda", "%mamba"):
        advice = "packages are installed with the tool sandbox_install, or with 'bailey install'"
    elif word in ("%%bash", "%%sh", "%sx", "%system"):
        advice = "lines that begin with ! run in bash"
    raise SyntaxError("%s is a magic of IPython, which this kernel does not have; %s" % (word, advice),
                      (name, at + 1, 1, text))


def run(host, command, is_wanted=False):
    """Runs a command in bash with the cell's own 0, 1 and 2; its lines are returned if wanted.
    `{name}` is replaced by that variable's value, if it exists. The status is stored in _exit_code."""
    host.flush()
    command = NAME.sub(lambda found: str(host.space[found.group(1)])
                       if found.group(1) in host.space else found.group(0), command)
    reader, actions = None, []
    if is_wanted:
        reader, writer = pipe()
        actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    try:
        child = posix_spawnp("bash", ["bash", "-c", command], os.environ, file_actions=actions,
                             setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT))
    finally:
        if reader is not None:
            close(writer)
    output = b""
    try:
        if reader is not None:
            output = read_all(reader)
        status = waitpid(child, 0)[1]
    except KeyboardInterrupt:
        kill(child, _signal.SIGINT)
        waitpid(child, 0)
        raise
    finally:
        if reader is not None:
            close(reader)
    host.space["_exit_code"] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return output.decode("utf-8", "replace").splitlines() if is_wanted else None


def read_all(fd):
    parts = []
    while True:
        data = read(fd, 65536)
        if not data:
            return b"".join(parts)
        parts.append(data)
