"""install.py - puts packages into a layer; runs in an installer box, with their interpreter.

    python3 -I -S -c <this> fetch       the first box: the network to the index, its passwords
    python3 -I -S -c <this> finish      the second one: neither; the same folder

/workspace/install.json is the order (written by src/session/installer.c): a virtual
environment at /bailey/template, or a folder of packages at /bailey/packages. What pip and the
packages themselves print goes to standard error, line by line, for the client that waits. Standard output
gets one line of JSON: {"python", "packages": [{"name", "version"}]}, or {"error": {"code",
"message"}}.

No code of packages runs in the first box, neither of those that are fetched nor of the template's: wheels
are only unpacked, and no interpreter begins there that would find their .pth files. So its list of packages is
true. The second box compiles and imports, and none of its output is trusted.

The same inputs make the same bytes: no times (compiled files carry a hash of their source instead),
no caches, no logs.
"""
import base64
import configparser
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

JOB = "/workspace/install.json"
TEMPLATE = "/bailey/template"
PACKAGES = "/bailey/packages"
LAST_LINES = 12
NETWORK_WORDS = ("after connection broken by", "Max retries exceeded", "ProxyError",
                 "Tunnel connection failed", "ConnectTimeoutError", "NewConnectionError",
                 "Network is unreachable", "Read timed out")


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def say(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


# ---- pip ----

def version_of(text):
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


# Besides the standard library only pip and the list of installed packages are on its path: a module of a
# template that pip would use if it exists (keyring, truststore, ...) must not run beside its passwords.
RUN_PIP = """
import runpy, sys
sys.path[:] = [path for path in sys.path if not path.startswith("/bailey/")] + sys.argv[1:3]
del sys.argv[1:3]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
PIP_HOME = "/workspace/pip"
INSTALLED = "/workspace/installed"


def find_pip():
    """An entry of sys.path that contains only pip: the interpreter's own, else a wheel."""
    code = "import os, pip; print(pip.__version__, os.path.dirname(pip.__file__))"
    found = subprocess.run([sys.executable, "-I", "-c", code], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False)
    if found.returncode == 0:
        version, _, folder = found.stdout.strip().partition(" ")
        if version_of(version) >= (22, 3):
            os.makedirs(PIP_HOME, exist_ok=True)
            os.symlink(folder, os.path.join(PIP_HOME, "pip"))
            return PIP_HOME
    wheels = sorted(glob.glob("/usr/share/python-wheels/pip-*.whl") +
                    glob.glob(os.path.join(os.path.dirname(os.__file__), "ensurepip", "_bundled",
                                           "pip-*.whl")))
    if wheels:
        return wheels[-1]
    raise Failure("install_failed", "the interpreter %s has no pip; install python3-pip or "
                  "python3-venv (Debian, Ubuntu), or name another one with SANDBOX_PYTHON"
                  % sys.executable)


def pip_words(*program):
    """Runs pip with an interpreter; it sees as installed what note_installed() wrote."""
    os.makedirs(INSTALLED, exist_ok=True)
    return [*program, "-c", RUN_PIP, find_pip(), INSTALLED]


def note_installed(folders):
    """Writes the installed packages in the form pip reads: names, versions and dependencies, without any code."""
    for folder in folders:
        for name in glob.glob(os.path.join(glob.escape(folder), "*.dist-info", "METADATA")):
            target = os.path.join(INSTALLED, os.path.basename(os.path.dirname(name)))
            os.makedirs(target, exist_ok=True)
            shutil.copyfile(name, os.path.join(target, "METADATA"))


def index_is_away():
    """pip does not report a plain HTTP index that the proxy could not reach: requests it once more to find out."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(os.environ.get("PIP_CONFIG_FILE", ""))
    index = settings.get("global", "index-url", fallback="").strip()
    proxy = settings.get("global", "proxy", fallback="").strip()
    if not index.startswith("http://"):
        return False
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy} if proxy else {}))
    try:
        opener.open(index, timeout=15).close()
    except urllib.error.HTTPError as answer:
        return answer.code in (502, 503, 504)
    except OSError:
        return True
    return False


def pip_failed(lines):
    text = "\n".join(lines[-LAST_LINES:])
    network = [line for line in lines if any(word in line for word in NETWORK_WORDS)]
    if network or ("(from versions: none)" in text and index_is_away()):
        return Failure("no_network", "the package index cannot be reached; pip said: " +
                       "\n".join(network[-1:] or lines[-2:]))
    return Failure("install_failed", text or "pip failed and said nothing")


def run(words, env=None):
    """Runs a program; its lines are reported as they come. Returns (status, lines)."""
    lines = []
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=env) as process:
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            if line:
                say(line)
                lines = (lines + [line])[-200:]
    return process.returncode, lines


def pip(words, arguments):
    status, lines = run(words + ["install", "--only-binary", ":all:", "--no-input",
                                 "--disable-pip-version-check", "--no-cache-dir",
                                 "--progress-bar", "off", "--retries", "1", "--timeout", "15",
                                 "--no-compile", "--no-warn-script-location"] + arguments)
    if status != 0:
        raise pip_failed(lines)


def write_text(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


# ---- a virtual environment ----

def make_environment():
    """bin/python is a link to the interpreter, the only one that may lead out of a layer."""
    import venv

    say("making the environment of Python %s" % sys.version.split()[0])
    venv.EnvBuilder(symlinks=True, with_pip=False).create(TEMPLATE)
    return os.path.join(TEMPLATE, "bin", "python")


def site_of(program):
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([program, "-I", "-c", code], stdin=subprocess.DEVNULL, check=True,
                          capture_output=True, text=True).stdout.strip()


# Package by package, so that progress can be reported every two seconds. The compiled files carry a
# hash of their source that Python does not check: a layer does not change.
COMPILE = """
import compileall, os, py_compile, sys, time

folder, told = sys.argv[1], 0.0
names = sorted(os.listdir(folder))
how = dict(quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
for number, name in enumerate(names, 1):
    if time.monotonic() - told >= 2:
        told = time.monotonic()
        print("compiling %s (%d of %d)" % (name, number, len(names)), flush=True)
    path = os.path.join(folder, name)
    if os.path.isdir(path) and not os.path.islink(path):
        compileall.compile_dir(path, workers=0, **how)
    else:
        compileall.compile_file(path, **how)
"""


def compile_all(folder):
    subprocess.run([sys.executable, "-I", "-S", "-c", COMPILE, folder], stdin=subprocess.DEVNULL,
                   stdout=sys.stderr.fileno(), check=False)


def warm_up(program, modules):
    """Imports each module once, so that its cache in the home folder (Matplotlib: fonts) is in the layer."""
    home = os.path.join(TEMPLATE, "home")
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("MPL", "XDG_", "PYTHON"))}
    env.update(HOME=home, MPLBACKEND="agg", PYTHONDONTWRITEBYTECODE="1")
    os.makedirs(home, exist_ok=True)
    for module in modules:
        say("importing %s" % module)
        status, lines = run([program, "-c", "import " + module], env)
        if status != 0:
            raise Failure("install_failed", "importing %s: %s" % (
                module, lines[-1] if lines else "status %d" % status))
    # The system's own font cache depends on the current time and machine, and is not needed.
    shutil.rmtree(os.path.join(home, ".cache", "fontconfig"), ignore_errors=True)


def check_python(wanted):
    """Compares with "3.12", a prefix of this version, or "/usr/bin/python3", a program."""
    own = sys.version.split()[0]
    if not wanted:
        return
    if wanted.startswith("/"):
        fits = os.path.realpath(wanted) == os.path.realpath(sys.executable)
    else:
        fits = own == wanted or own.startswith(wanted + ".")
    if not fits:
        raise Failure("install_failed", "the template wants Python %s, and the interpreter is %s "
                      "(%s); name another one with SANDBOX_PYTHON and restart the daemon"
                      % (wanted, own, sys.executable))


def fetch_template(job):
    check_python(job.get("python"))
    program = make_environment()
    site = site_of(program)
    if job["requirements"].strip():
        requirements = write_text("/workspace/requirements.txt", job["requirements"])
        # Without -S, by which it would not know that it is a virtual environment; there is nothing in that yet.
        pip(pip_words(program, "-I"), (["--require-hashes"] if job["hashes"] else []) +
            ["-r", requirements])
    return site


def finish_template(job):
    program = os.path.join(TEMPLATE, "bin", "python")
    for site in glob.glob(os.path.join(TEMPLATE, "lib", "python*", "site-packages")):
        compile_all(site)
    write_files(TEMPLATE, job["files"])
    warm_up(program, job["modules"])


# ---- a folder of packages ----

def locked(report):
    """The packages that pip would add, as requirement lines with the versions it chose."""
    lines = []
    for item in report["install"]:
        hashes = item.get("download_info", {}).get("archive_info", {}).get("hashes", {})
        line = "%s==%s" % (item["metadata"]["name"], item["metadata"]["version"])
        if "sha256" in hashes:
            line += " --hash=sha256:" + hashes["sha256"]
        lines.append(line)
    if not all(" --hash=" in line for line in lines):
        lines = [line.split(" ")[0] for line in lines]
    return lines


def sites_of(job):
    if job["layer"]:
        return glob.glob(os.path.join(TEMPLATE, "lib", "python*", "site-packages"))
    import site

    return site.getsitepackages()


def fetch_packages(job):
    """Installs only what the template does not have: pip resolves first, then fetches just that."""
    words = pip_words(sys.executable, "-I", "-S")
    note_installed(sites_of(job))
    requirements = write_text("/workspace/requirements.txt", job["requirements"])
    report = "/workspace/report.json"
    pip(words, ["--dry-run", "--quiet", "--report", report, "-r", requirements])
    with open(report, encoding="utf-8") as file:
        lines = locked(json.load(file))
    if lines:
        say("installing " + " ".join(line.split(" ")[0] for line in lines))
        lock = write_text("/workspace/requirements.lock", "\n".join(lines) + "\n")
        pip(words, ["--no-deps", "--target", PACKAGES, "-r", lock])
    return PACKAGES


def finish_packages(job):
    compile_all(PACKAGES)
    write_files(PACKAGES, job["files"])


# ---- both ----

def write_files(folder, files):
    for name, content in sorted(files.items()):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = (content["text"].encode("utf-8") if isinstance(content, dict)
                else base64.b64decode(content))
        with open(path, "wb") as file:
            file.write(data)


def list_packages(site):
    from importlib.metadata import distributions

    found = {}
    for item in distributions(path=[site]):
        if item.metadata["Name"]:
            found[item.metadata["Name"]] = item.version
    return [{"name": name, "version": found[name]} for name in sorted(found, key=str.lower)]


def main():
    with open(JOB, encoding="utf-8") as file:
        job = json.load(file)
    os.umask(0o022)
    is_template = job["kind"] == "template"
    if sys.argv[1] == "finish":
        (finish_template if is_template else finish_packages)(job)
        return {"python": sys.version.split()[0]}
    site = (fetch_template if is_template else fetch_packages)(job)
    return {"python": sys.version.split()[0], "packages": list_packages(site)}


if __name__ == "__main__":
    try:
        print(json.dumps(main()), flush=True)
    except Failure as failure:
        print(json.dumps({"error": {"code": failure.code, "message": str(failure)}}), flush=True)
        sys.exit(1)
    except Exception as failure:  # pylint: disable=broad-except
        print(json.dumps({"error": {"code": "install_failed", "message": "%s: %s" % (
            type(failure).__name__, failure)}}), flush=True)
        sys.exit(1)
