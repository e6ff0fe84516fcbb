"""zygote_site.py - what `site` does at an interpreter's start, done in a zygote without running anything.
Loaded by zygote.py, which is started with -S.

Lines of .pth files that begin with "import", sitecustomize and usercustomize are code that a
template's tiers do not name. In a zygote only their existence is recorded; they run in each kernel, in its box,
where a cold kernel runs them too. Folders that .pth files name are data: they are added here. A sitecustomize beside the standard
library is the interpreter's own: it runs here, while there are no packages that it could import.

Without a template there is no -S: the host's own Python starts as its administrator configured it.
"""
import importlib.util
import os
import site
import sys

CUSTOM = ("sitecustomize", "usercustomize")


class Site:
    """Created in the zygote; finish() is called in each kernel."""

    def __init__(self, native):
        self.lines = []
        self.custom = []
        if not sys.flags.no_site:  # in a container: it ran already, in a guest
            return
        for found in map(self.find, CUSTOM):
            if found and os.path.dirname(found[0].origin or "") == os.path.dirname(os.__file__):
                run(found[0].name, lambda: load(*found))
        site.addpackage = self.add_package
        site.execsitecustomize = site.execusercustomize = lambda: None
        site.main()
        self.custom = [found for found in map(self.find, CUSTOM) if found and found[0].name not in sys.modules]
        importlib.util.find_spec("no module of this name")  # every folder is listed once, here
        sys.flags = native.flags_with_site(sys.flags)

    def add_package(self, folder, name, known):
        """As site.addpackage(), but stores the lines that are code."""
        known = site._init_pathinfo() if known is None else known
        for line in read_lines(os.path.join(folder, name)):
            if line.startswith(("import ", "import\t")):
                self.lines.append((name, line))
                continue
            path, folded = site.makepath(folder, line.rstrip())
            if folded not in known and os.path.exists(path):
                sys.path.append(path)
                known.add(folded)
        return known

    @staticmethod
    def find(name):
        """Its specification and its code, compiled and not run; None: no such module."""
        try:
            spec = importlib.util.find_spec(name)
            return (spec, spec.loader.get_code(name)) if spec else None
        except Exception as problem:
            print(f"zygote: {name} is left out: {problem!r}", file=sys.stderr)
            return None

    def finish(self):
        """In a kernel, whose isolation is complete."""
        for name, line in self.lines:
            run(name, lambda: exec(line, {"__name__": "site", "__builtins__": __builtins__}))
        for spec, code in self.custom:
            run(spec.name, lambda: load(spec, code))


def read_lines(path):
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            return [line for line in file if line.strip() and not line.startswith("#")]
    except OSError:
        return []


def load(spec, code):
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[spec.name]
        raise


def run(name, function):
    try:
        function()
    except Exception as problem:  # as at an interpreter's start: reported, and the kernel starts anyway
        print(f"Error processing {name}: {problem!r}", file=sys.stderr)
