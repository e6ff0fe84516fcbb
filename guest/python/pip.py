"""pip of a box: `pip`, and the module that `python -m pip` finds first (PYTHONPATH), with every interpreter.

pip itself is that of the interpreter that runs this file, for that interpreter's packages.
A template has none of its own. Then the pip of the Python that it was made from is used, as a module
only: that Python's other packages are not on the path, so pip lists and changes what the code sees. Where no pip
is found, this file lists and shows packages itself.

A box has no network. In a session or run with SANDBOX_AUTO_INSTALL the engine installs: it watches a folder for requests and
answers there. Elsewhere, and in calls without the setting, commands that would fetch packages say what is possible.

`import pip` gets the interpreter's own module.
"""
import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))

FETCHING = ("install", "download", "wheel")
VALUES = ("-r", "-c", "-e", "-t", "-i", "-f", "-d", "-w", "--requirement", "--constraint", "--target", "--index-url")
GLOBAL_VALUES = ("--cache-dir", "--cert", "--client-cert", "--log", "--proxy", "--python", "--retries",
                 "--timeout", "--trusted-host")  # options before the command whose value is the next word
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]*\])?([=<>!~][=<>!~.*+,A-Za-z0-9 ]*)?")
PLACE = "/tmp/.bailey-install"
IDLE = ("-q", "-qq", "-v", "-U", "--quiet", "--upgrade", "--user", "--no-cache-dir", "--break-system-packages", "--no-input",
        "--prefer-binary", "--disable-pip-version-check")  # options that make no difference to the engine
PATIENCE = 900  # seconds; the engine's own limit is SANDBOX_INSTALL_TIMEOUT
FILE = re.compile(r"^\.|/|\.(whl|zip|tar\.gz)$")
ADVICE = """\
pip: this sandbox has no network. Packages are installed into a session from outside: the tool sandbox_install \
{"packages": %s}, or the command bailey install -s SESSION %s
pip: SANDBOX_AUTO_INSTALL=true makes pip install work %s and installs modules that Python code misses; \
a template ('bailey template build') has its packages from the start.
"""
IN_SESSION = "in sessions"
IN_RUN = "in sessions and in runs that a daemon carries out,"
QUICK = 10  # looks at the answer, 0.05 s each, before a line says that something is being installed


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


def requirements(words):
    """What `pip install` is asked for; None: something that the engine does not do (--target, -e)."""
    words, wanted = words[words.index("install") + 1:] if "install" in words else ["-"], []
    while words:
        word = words.pop(0)
        if word in ("-r", "--requirement") and words:
            with open(words.pop(0), encoding="utf-8") as file:
                lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in file]
            words[:0] = [line for line in lines if line]
        elif not word.startswith("-"):
            wanted.append(word)
        elif word not in IDLE:
            return None
    return wanted or None


def order(wanted):
    """Asks the engine, waits, prints its answer, ends with its status."""
    path = os.path.join(PLACE, os.urandom(8).hex())
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(word.replace("\n", " ") + "\n" for word in wanted))
    os.rename(path, path + ".ask")
    try:
        for look in range(PATIENCE * 20):
            if look == QUICK:
                print("Installing " + ", ".join(wanted), flush=True)
            if os.path.exists(path + ".done"):
                with open(path + ".done", encoding="utf-8") as file:
                    status, _, said = file.read().partition("\n")
                if status == "2":  # the setting is off for this call
                    advise(wanted)
                sys.stderr.write(said) if status != "0" else sys.stdout.write(said + other_python())
                sys.exit(int(status != "0"))
            time.sleep(0.05)
        sys.exit("pip: the engine did not answer")
    finally:
        for ending in (".ask", ".done"):
            if os.path.exists(path + ending):
                os.unlink(path + ending)


def other_python():
    """A line about packages that were made for another version of Python than this one."""
    python, mine = os.path.join(HERE, "..", "python"), "%d.%d" % sys.version_info[:2]
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([python, "-S", "-c", code], stdout=subprocess.PIPE, universal_newlines=True, check=False)
    theirs = asked.stdout.strip()
    return "" if theirs in (mine, "") else "They are for Python %s ('python'), this is Python %s.\n" % (theirs, mine)


def advise(operands):
    names = [word for word in operands if PACKAGE.fullmatch(word)][:8] or ["NAME"]
    shown = " ".join(name if re.fullmatch(r"[\w.-]+", name) else "'%s'" % name for name in names)
    where = IN_SESSION if os.path.isdir("/bailey/packages") else IN_RUN
    sys.exit((ADVICE % (json.dumps(names), shown, where)).rstrip("\n"))


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


def distributions():
    from importlib import metadata
    found = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name and re.sub(r"[-_.]+", "-", name).lower() not in found:
            found[re.sub(r"[-_.]+", "-", name).lower()] = one
    return [found[name] for name in sorted(found)]


def by_hand(words):
    """list, freeze, show and --version where no pip is found."""
    command = next((word for word in words if not word.startswith("-")), "")
    every = [(one.metadata["Name"], one.version) for one in distributions()]
    if not command and {"-V", "--version"} & set(words):
        print("pip of Bailey, which lists packages (python %d.%d)" % sys.version_info[:2])
    elif command == "list" and "json" in " ".join(words):
        print(json.dumps([{"name": name, "version": version} for name, version in every]))
    elif command == "freeze" or command == "list" and "freeze" in " ".join(words):
        print("".join("%s==%s\n" % one for one in every), end="")
    elif command == "list":
        wide = max([len(name) for name, _ in every] + [7])
        print("\n".join("%-*s %s" % (wide, *one) for one in [("Package", "Version"), ("-" * wide, "-" * 7)] + every))
    elif command == "show":
        show([word for word in words[words.index("show") + 1:] if not word.startswith("-")])
    else:
        sys.exit("pip: the Python of this sandbox has no pip; list, freeze and show work")


def show(names):
    wanted = [re.sub(r"[-_.]+", "-", name).lower() for name in names]
    found = [one for one in distributions() if re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower() in wanted]
    blocks = ["".join("%s: %s\n" % (key, one.metadata[key] or "") for key in ("Name", "Version", "Summary", "License"))
              + "Location: %s\nRequires: %s\n" % (one.locate_file(""), ", ".join(
                  re.match(r"[\w.-]+", line).group() for line in one.requires or [] if "extra ==" not in line))
              for one in found]
    print("---\n".join(blocks), end="")
    if len(found) < len(set(wanted)):
        sys.stderr.write("WARNING: not all of these packages were found: %s\n" % ", ".join(names))
    sys.exit(int(not found))


def refuse_read_only(words):
    """`pip uninstall` of what this machine, the template or the engine installed would fail halfway."""
    from importlib import metadata
    for name in [word for word in words if PACKAGE.fullmatch(word)]:
        try:
            folder = str(metadata.distribution(name).locate_file(""))
        except (metadata.PackageNotFoundError, ValueError):
            continue
        if not os.access(folder, os.W_OK):
            sys.exit("pip: '%s' cannot be uninstalled: %s is read-only in this sandbox" % (name, folder.rstrip("/")))


def intercept(words):
    """Ends here if the command needs a network."""
    if "uninstall" in words:
        refuse_read_only(words[words.index("uninstall") + 1:])
    operands = fetched(words)
    if operands is not None:
        wanted = requirements(words) if os.path.isdir(PLACE) else None
        order(wanted) if wanted else advise(operands)


def main():
    sys.path[:] = [path for path in sys.path if path != HERE]
    intercept(sys.argv[1:])
    if not importlib.util.find_spec("pip") and not borrow():
        by_hand(sys.argv[1:])
        return
    # Other commands that ask an index (search, index) fail at once: there is no network.
    os.environ.setdefault("PIP_RETRIES", "0")
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


def give_way():
    """`import pip`: the module of the interpreter takes this one's place. A script pip of a virtual environment imports it, too."""
    spec = importlib.machinery.PathFinder.find_spec("pip", [path for path in sys.path if path != HERE])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'pip'", name="pip")
    if re.fullmatch(r"pip[0-9.]*", os.path.basename((getattr(sys, "argv", None) or [""])[0])):
        intercept(sys.argv[1:])
    module = sys.modules["pip"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


main() if __name__ == "__main__" else give_way()
