"""pip of a box: the pip of the interpreter that runs this file, for that interpreter's packages.

A template has none of its own. Then the pip of the Python that it was made from is used, as a module
only: that Python's other packages are not on the path, so pip lists and changes what the code sees.
"""
import glob
import importlib.machinery
import importlib.util
import os
import runpy
import sys


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
    if not importlib.util.find_spec("pip") and not borrow():
        sys.exit("pip: the Python of this sandbox has no pip")
    # A box has no network: to ask again and again would only take the caller's time.
    os.environ.setdefault("PIP_RETRIES", "0")
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    try:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if ending.code and sys.argv[1:2] in (["install"], ["download"]):
            sys.stderr.write("pip: this sandbox has no network. Packages are added from outside, where that is "
                             "allowed: the tool sandbox_install, or 'bailey install'.\n")
        raise


main()
