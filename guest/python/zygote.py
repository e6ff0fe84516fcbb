"""zygote.py - a warm Python: imports modules, then forks kernels that have them.

It imports and never calls what it loaded: a thread pool that was used before a fork hangs every
child. No guest code ever runs here. argv[1] is the tier: 0 has the modules below, n those of the
first n lines of /bailey/tiers too (a name, then modules).
"""
import sys

import _zygote

_zygote.start()  # not dumpable from here on

import gc

gc.disable()  # what is imported stays

COMMON = ("json",)

import kernel


def load(names, tier):
    for name in names:
        try:
            __import__(name)
        except Exception as error:  # the template is wrong about it: all others are still warm
            print(f"zygote: module {name} of tier {tier} is left out: {error!r}", file=sys.stderr)


def tiers(count):
    with open("/bailey/tiers", encoding="utf-8", errors="replace") as file:
        lines = [line.split() for line in file if line.strip()]
    for words in lines[:count]:
        yield words[0], words[1:]


def main():
    load(COMMON, "base")
    for name, modules in tiers(int(sys.argv[1])):
        load(modules, name)
    sys.path[:] = [path for path in sys.path if path != "/bailey/driver"]
    gc.collect()
    gc.freeze()
    gc.enable()
    sys.stderr.flush()
    _zygote.serve()
    del sys.modules["_zygote"]
    kernel.fresh()
    kernel.main(3)


main()
