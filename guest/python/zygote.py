"""zygote.py - a warm Python: imports modules, then forks kernels that have them.

    python3 [-S] zygote.py TIER [TIERS]

It imports and never calls what it loaded: a thread pool that was used before a fork hangs every
child. No guest code ever runs here, and of a template's packages only the modules that are named: what the
interpreter would run by itself (.pth files, sitecustomize) runs in kernels (zygote_site.py). The
process has no capability, and its filter is on before the interpreter begins. Tier 0 has the modules below; tier n those of the first n lines
of the file TIERS too (each a name, then modules; /bailey/tiers). Everything after _zygote.serve() happens in kernels,
which have all their walls by then.
"""
import sys

import _zygote

_zygote.start()  # before anything else is loaded: not dumpable from here on

import gc  # noqa: E402

gc.disable()  # what is imported stays

import zygote_site  # noqa: E402

SITE = zygote_site.Site(_zygote)

import kernel  # noqa: E402
import zygote_fork  # noqa: E402

# What programs of agents import most, as far as it pays: all of it makes a fork 0.1 ms longer.
# asyncio would be 0.06 ms alone, and what talks to networks has none to talk to.
COMMON = """
argparse base64 bisect collections contextlib copy csv dataclasses datetime decimal enum fractions
functools hashlib heapq inspect io itertools json logging math operator os pathlib random re secrets
shutil statistics string struct subprocess tempfile textwrap threading time traceback typing uuid zlib
""".split()


def load(names, tier):
    for name in names:
        try:
            __import__(name)
        except BaseException as problem:  # the template is wrong about it: all others stay warm
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
    gc.freeze()  # no collection in a kernel touches, and so copies, any of it
    gc.enable()
    birth.happen(_zygote.serve())


main()
