# furniture.py - what python.py needs and a quick look cannot make: the `data` template, built once, the
# same files for bubblewrap and docker, and an interpreter with a Jupyter kernel.
#
# Kept in $BENCH_CACHE, else beside the program that is measured (build/bench-cache).
import glob
import json
import os
import subprocess

from harness import Failed
from peers import copy_tree
from suites import prefixes_outside_usr

TEMPLATE = "/bailey/template"
BUILT_WITHIN_S = 1200
JUPYTER = ("jupyter_client", "ipykernel")


def cache(bench):
    return os.environ.get("BENCH_CACHE") or os.path.join(os.path.dirname(bench.bailey),
                                                         "bench-cache")


def data_state(bench):
    """A state folder in which the template `data` is built. Failed says why there is none."""
    state = os.path.join(cache(bench), "state")
    if os.path.exists(os.path.join(state, "templates", "data.json")):
        return state
    bench.tell("building the template data, once")
    os.makedirs(state, mode=0o700, exist_ok=True)
    os.chmod(cache(bench), 0o755)
    env = dict(bench.env, BAILEY_STATE_DIR=state)
    env.pop("XDG_RUNTIME_DIR", None)  # its socket is then in the state folder
    try:
        built = subprocess.run([bench.bailey, "template", "build", "data"], env=env,
                               capture_output=True, text=True, timeout=BUILT_WITHIN_S)
    finally:
        subprocess.run([bench.bailey, "daemon", "stop", "--force"], env=env, capture_output=True)
    if built.returncode != 0:
        raise Failed("template build data: " + built.stderr.strip()[-300:])
    return state


class Layer:
    """The template's files where bubblewrap and docker can be given them."""

    def __init__(self, bench, state, python):
        with open(os.path.join(state, "templates", "data.json")) as file:
            record = json.load(file)
        self.folder = os.path.join(bench.scratch, "layer")
        copy_tree(os.path.join(state, "layers", record["layer"]), self.folder)
        os.chmod(bench.scratch, 0o755)
        self.prefixes = prefixes_outside_usr(python)
        self.python = TEMPLATE + "/bin/python"
        self.env = dict(record["env"], HOME="/home/user", PATH="/usr/bin")
        # One by one: Matplotlib wants its folder writable, or makes its list of fonts anew.
        home = os.path.join(self.folder, "home")
        self.files = [(path, "/home/user/" + os.path.relpath(path, home)) for path in
                      glob.glob(home + "/**", recursive=True, include_hidden=True)
                      if os.path.isfile(path)]

    def bwrap(self, bench, code):
        argv = bench.bwrap + ["--ro-bind", self.folder, TEMPLATE, "--tmpfs", "/home/user"]
        for prefix in self.prefixes:
            argv += ["--ro-bind", prefix, prefix]
        for source, target in self.files:
            argv += ["--ro-bind", source, target]
        for name, value in self.env.items():
            argv += ["--setenv", name, value]
        return argv + [self.python, "-c", code]

    def docker_options(self):
        options = ["-v", "/usr:/usr:ro", "-v", self.folder + ":" + TEMPLATE + ":ro",
                   "--tmpfs", "/home/user"]
        for prefix in self.prefixes:
            options += ["-v", "%s:%s:ro" % (prefix, prefix)]
        for source, target in self.files:
            options += ["-v", "%s:%s:ro" % (source, target)]
        for name, value in self.env.items():
            options += ["-e", "%s=%s" % (name, value)]
        return options


def jupyter_python(bench, python):
    """An interpreter that has a Jupyter kernel. Failed says why there is none."""
    return venv_python(bench, python, "jupyter", JUPYTER)


def venv_python(bench, python, name, packages):
    """An interpreter that has these packages, made once. Failed says why there is none."""
    folder = os.path.join(cache(bench), name)
    own = os.path.join(folder, "bin", "python")
    if os.path.exists(os.path.join(folder, "complete")):
        return own
    bench.tell("installing %s, once" % " and ".join(packages))
    for argv in ([python, "-m", "venv", folder],
                 [own, "-m", "pip", "install", "-q", *packages]):
        ran = subprocess.run(argv, env=bench.env, capture_output=True, text=True)
        if ran.returncode != 0:
            raise Failed("%s: %s" % (" ".join(argv[1:4]), (ran.stderr or ran.stdout).strip()[-300:]))
    with open(os.path.join(folder, "complete"), "w"):
        pass
    return own
