"""zygote_fork.py - turns a zygote's fork into a waiting kernel, with as few written pages as possible.
Loaded by zygote.py.

The first write to a page that is shared with the zygote copies it (2 us, and again at the end), and
Python writes to every object that it uses: its reference count. So work is done before the fork where
possible, the rest natively where that is simple, and a prewarmed kernel runs a rehearsal before it is
needed.
"""
import builtins
import os
import posix
import sys

import kernel

PACKAGES = "/bailey/packages"
MODULES = "/bailey/bin/modules"  # our pip
# After the zygote's fork these have nothing to do: the zygote has one thread, which holds no lock.
IDLE_HOOKS = {("random", "Random.seed"), ("threading", "_after_fork"),
              ("logging", "_after_at_fork_child_reinit_locks")}


class Hooks:
    """Fork hooks of modules. They do not run at the zygote's own forks, and are registered in the
    kernel, for forks of guest code."""

    def __init__(self):
        self.register = posix.register_at_fork
        self.taken = []
        posix.register_at_fork = os.register_at_fork = self.take

    def take(self, **hooks):
        if not hooks or not all(map(callable, hooks.values())):
            return self.register(**hooks)  # which raises the error
        self.taken.append(hooks)
        return None

    def needed(self):
        """Hooks for kernels, except those that have nothing to do."""
        found = [hooks.get("after_in_child") for hooks in self.taken]
        return [hook for hook in found if hook is not None and
                (getattr(hook, "__module__", ""), getattr(hook, "__qualname__", "")) not in IDLE_HOOKS]

    def give_back(self):
        posix.register_at_fork = os.register_at_fork = self.register
        for hooks in self.taken:
            self.register(**hooks)


class Randomness:
    """Gives each kernel its own random seeds."""

    def __init__(self, native):
        self.seeds = [sys.modules["random"].seed]
        self.set_key, self.capsule = native.set_key, None
        if "numpy.random" in sys.modules and not self.find_key(native):
            self.seeds.append(sys.modules["numpy.random"].seed)  # the same effect, but writes 160 pages more

    def find_key(self, native):
        """The address of the state of numpy's global generator, if its layout is the known one."""
        try:
            generator = sys.modules["numpy.random"].mtrand._rand._bit_generator
            state = generator.state
            if state["bit_generator"] == "MT19937" and native.has_key(generator.capsule,
                                                                      state["state"]["key"].tobytes()):
                self.capsule = generator.capsule
        except Exception:  # another numpy
            pass
        return self.capsule is not None

    def renew(self):
        for seed in self.seeds:
            seed()
        if self.capsule is not None:
            self.set_key(self.capsule)
        if "tempfile" in sys.modules:
            sys.modules["tempfile"]._name_sequence = None


def make_streams():
    """A program's streams, made over pipes like its later ones: streams remember whether they can seek."""
    ends = posix.pipe()
    kept = [posix.dup(fd) for fd in (1, 2)]
    try:
        for fd in (1, 2):
            posix.dup2(ends[1], fd)
        return kernel.helper("kernel_script").make_streams()
    finally:
        for fd, copy in zip((1, 2), kept):
            posix.dup2(copy, fd)
        for fd in (*ends, *kept):
            posix.close(fd)


class Birth:
    """Created in the zygote after all imports; runs in each kernel."""

    def __init__(self, native, hooks, site, modules):
        self.native = native
        self.hooks = hooks
        self.site = site
        self.needed = hooks.needed()
        self.randomness = Randomness(native)
        self.kernel = kernel._the_kernel = kernel.Kernel("/workspace")
        self.kernel.streams = make_streams()
        self.kernel.flush_c = native.flush
        self.program = "".join("import %s\n" % name for name in modules) + "x = str(len([1]))\n"

    def happen(self, is_ahead):
        """In the kernel, whose isolation is complete; does not return."""
        del sys.modules["_zygote"]
        for hook in self.needed:
            hook()
        self.hooks.give_back()
        sys.modules["threading"]._main_thread._set_native_id()
        self.site.finish()
        self.randomness.renew()
        try:
            posix.stat(PACKAGES)
        except OSError:
            pass
        else:
            self.add_packages()
        self.kernel.begin(3)
        if is_ahead:
            self.rehearse()
        self.kernel.serve()

    @staticmethod
    def add_packages():
        """Adds the folder where PYTHONPATH would put it."""
        if PACKAGES not in sys.path:
            sys.path.insert(1 + (sys.path[1:2] == [MODULES]), PACKAGES)
            os.environ["PYTHONPATH"] = MODULES + ":" + PACKAGES

    def rehearse(self):
        """A rehearsal of what every program does at its start and end, without lasting effects."""
        self.kernel.rest = b"cell 0 - 0 0 0\n"
        self.kernel.next_cell()
        self.kernel.put([])
        exec(compile(self.program.encode(), "", "exec", dont_inherit=True), {"__builtins__": builtins})
        for stream in self.kernel.streams[1:]:
            stream.write("")
            stream.flush()
