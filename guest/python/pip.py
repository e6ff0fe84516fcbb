"""pip of a box: the pip of the interpreter that runs this file, for that interpreter's packages.

A template has none of its own. Then the pip of the Python that it was made from is used, as a module
only: that Python's other packages are not on the path, so pip lists and changes what the code sees.

A box has no network, so commands that would fetch packages say what is possible instead.
"""
import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import runpy
import sys

FETCHING = ("install", "download", "wheel")
VALUES = ("-r", "-c", "-e", "-t", "-i", "-f", "-d", "-w", "--requirement", "--constraint", "--target", "--index-url")
GLOBAL_VALUES = ("--cache-dir", "--cert", "--client-cert", "--log", "--proxy", "--python", "--retries",
                 "--timeout", "--trusted-host")  # options before the command whose value is the next word
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]*\])?([=<>!~][=<>!~.*+,A-Za-z0-9 ]*)?")
FILE = re.compile(r"^\.|/|\.(whl|zip|tar\.gz)$")
ADVICE = """\
pip: this sandbox has no network. Packages are installed into a session from outside: the tool sandbox_install \
{"packages": %s}, or the command bailey install -s SESSION %s
pip: with SANDBOX_AUTO_INSTALL=true the engine installs a module that Python code misses and runs the code again; \
a template ('bailey template build') has its packages from the start.
"""


def fetched(words):
    """The arguments of a command that needs the network; None: another command, or files that are here."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in GLOBAL_VALUES else 1
    rest = words[at + 1:]
    if words[at:at + 1] == [] or words[at] not in FETCHING or {"-h", "--help", "--no-index"} & set(rest):
        return None
    operands = [word for before, word in zip([""] + rest, rest)
                if not word.startswith("-") and before not in VALUES]
    if operands and all(os.path.exists(word) and FILE.search(word) for word in operands):
        os.environ["PIP_NO_INDEX"] = "1"
        return None
    return operands


def advise(operands):
    names = [word for word in operands if PACKAGE.fullmatch(word)][:8] or ["NAME"]
    shown = " ".join(name if re.fullmatch(r"[\w.-]+", name) else "'%s'" % name for name in names)
    sys.exit((ADVICE % (json.dumps(names), shown)).rstrip("\n"))


def borrow():
    """Makes the module pip importable; False when this machine's Python has none."""
    version = "python%d.%d" % sys.version_info[:2]
    folders = [os.path.join(sys.base_prefix, *parts) for parts in (
        ("lib", version, "site-packages"), ("local", "lib", version, "dist-packages"),
        ("lib", "python3", "dist-packages"), ("lib64", version, "site-packages"))]
    spec = importlib.machinery.PathFinder.find_spec("pip", folders)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["pip"] = module
        spec.loader.exec_module(module)
        return True
    wheels = sorted(glob.glob("/usr/share/python-wheels/pip-*.whl") + glob.glob(
        os.path.join(os.path.dirname(os.__file__), "ensurepip", "_bundled", "pip-*.whl")))
    sys.path.extend(wheels[-1:])
    return bool(wheels)


def main():
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    operands = fetched(sys.argv[1:])
    if operands is not None:
        advise(operands)
    if not importlib.util.find_spec("pip") and not borrow():
        sys.exit("pip: the Python of this sandbox has no pip")
    # Other commands that ask an index (search, index) fail at once: there is no network.
    os.environ.setdefault("PIP_RETRIES", "0")
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


main()
