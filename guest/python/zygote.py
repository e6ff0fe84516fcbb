"""zygote.py - a warm Python: imports modules, then forks kernels that have them.

    python3 [-S] zygote.py TIER [TIERS]

It imports modules and never calls them: a thread pool that was used before a fork hangs every
child. No guest code ever runs here, and of a template's packages only the named modules are imported: code that the
interpreter would run by itself (.pth files, sitecustomize) runs in kernels (zygote_site.py). The
process has no capability, and its seccomp filter is active before the interpreter starts. Tier 0 has the modules
below; tier n also those of the first n lines of the file TIERS (each a name, then modules; /bailey/tiers). Everything
after _zygote.serve() happens in kernels, whose isolation is complete by then.
"""
import sys

import _zygote

_zygote.start()  # before anything else is loaded: not dumpable from here on

import gc  # noqa: E402

gc.disable()  # imported objects live forever

import zygote_site  # noqa: E402

SITE = zygote_site.Site(_zygote)

import kernel  # noqa: E402
import zygote_fork  # noqa: E402

# The modules that agents' programs import most, as far as it pays: together they make a fork 0.1 ms longer.
# asyncio alone would add 0.06 ms, and modules for networks are of no use in a box without one.
COMMON = """
argparse base64 bisect collections contextlib copy csv dataclasses datetime decimal enum fractions
functools hashlib heapq inspect io itertools json logging math operator os pathlib random re secrets
shutil statistics string struct subprocess tempfile textwrap threading time traceback typing uuid zlib
""".split()


def load(names, tier):
    for name in names:
        try:
            __import__(name)
        except BaseException as problem:  # the template names a broken module: all others stay warm
            print(f"zygote: {name} of tier {tier} is left out: {problem!r}", file=sys.stderr)


def tiers(count, path="/bailey/tiers"):
    """Name and modules of the first `count` lines."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file if line.strip()]
    except OSError:
        lines = []
    for words in lines[:count]:
        yield words[0], words[1:]


def main():
    hooks = zygote_fork.Hooks()
    loaded = []
    load(COMMON, "base")
    kernel.preload()
    for name, modules in tiers(int(sys.argv[1]), *sys.argv[2:3]):
        load(modules, name)
        loaded += modules
    birth = zygote_fork.Birth(_zygote, hooks, SITE, [name for name in loaded if name in sys.modules])
    gc.collect()
    gc.freeze()  # no garbage collection in a kernel touches, and so copies, these objects
    gc.enable()
    birth.happen(_zygote.serve())


main()
