"""kernel_hooks.py - hooks for guest code: a standard input that raises an explanation,
and a notification of imports. Loaded by kernel.py, which is `kernel` here.
"""
import io
import sys


class NoInput(EOFError):
    """The cell reads standard input, but was given none."""


NoInput.__name__ = NoInput.__qualname__ = "NoInputError"
NoInput.__module__ = "builtins"
NO_INPUT = ("this cell was given no standard input; pass the text to read with the cell "
            "(stdin in the API), or put the values in the code")


class Silence(io.TextIOBase):
    """sys.stdin of a cell without input."""

    encoding, errors, name, mode = "utf-8", "surrogateescape", "<stdin>", "r"

    def read(self, *_):
        raise NoInput(NO_INPUT)

    readline = readlines = read1 = readinto = __next__ = read

    def __iter__(self):
        return self

    def readable(self):
        return True

    def fileno(self):
        return 0

    def close(self):
        pass

    @property
    def buffer(self):
        return self


class Watch:
    """On sys.meta_path: notices that matplotlib.pyplot is being imported, so that it can be adopted."""

    def __init__(self, adopt):
        self.adopt = adopt
        self.loader = None

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot" or self.loader is not None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None and hasattr(spec.loader, "exec_module"):
                self.loader, spec.loader = spec.loader, self
                return spec
        return None

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        try:
            self.loader.exec_module(module)
        finally:
            self.loader = None
        self.adopt(module)
