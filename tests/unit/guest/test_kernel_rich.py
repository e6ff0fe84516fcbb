"""guest/python/kernel_charts.py and kernel_values.py with real Matplotlib, pandas and Polars."""
import base64
import subprocess

import pytest

import fake_warden
import support

CHART = "application/vnd.bailey.chart+json"
DATA = "application/vnd.bailey.data+json"
PACKAGES = ["matplotlib", "numpy", "pandas", "polars"]
ZYGOTE = support.BAILEY.parent / "src" / "zygote"  # the folder of _zygote.so


def has_packages(python):
    done = subprocess.run([str(python), "-c", "import " + ", ".join(PACKAGES)], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture(scope="session")
def python():
    """$KERNEL_PYTHON or this one, if it has the packages; else one made beside the binary with pip."""
    given = fake_warden.COMMANDS["python"][0]
    if has_packages(given):
        return given
    return str(support.python_with("test-venv-data", PACKAGES))


@pytest.fixture(scope="module")
def kernel(python):
    command = [python] + fake_warden.COMMANDS["python"][1:]
    with fake_warden.Kernel("python", command) as kernel:
        cell = kernel.run("import sys\n'matplotlib' in sys.modules")
        assert cell.text == "False"
        cell = kernel.run("import matplotlib.pyplot as plt, numpy as np, pandas as pd, polars as pl, datetime")
        assert (cell.status, cell.events) == (0, [])
        yield kernel


def chart(kernel, code):
    cell = kernel.run(code)
    assert cell.error is None and cell.stderr == b""
    shown = cell.of("display")
    assert len(shown) == 1
    assert base64.b64decode(shown[0]["data"]["image/png"], validate=True).startswith(b"\x89PNG")
    return shown[0]["data"][CHART]


def test_line(kernel):
    found = chart(kernel, "plt.plot([1, 2], [3, float('nan')], label='a'); plt.plot([5, 6])\n"
                          "plt.title('T'); plt.xlabel('Time (s)'); plt.ylabel('Height'); plt.grid(True);")
    assert found["type"] == "line" and found["title"] == "T"
    assert (found["x_label"], found["x_unit"], found["y_label"], found["y_unit"]) == ("Time (s)", "s", "Height", None)
    assert found["elements"] == [{"label": "a", "points": [[1.0, 3.0], [2.0, None]]},
                                 {"label": "Line 1", "points": [[0.0, 5.0], [1.0, 6.0]]}]
    assert found["x_scale"] == found["y_scale"] == "linear"
    assert len(found["x_ticks"]) == len(found["x_tick_labels"]) > 2


def test_scatter(kernel):
    found = chart(kernel, "plt.scatter(np.arange(3), [1, 2, 3], label='D'); plt.scatter([9], [8]);")
    assert found["type"] == "scatter" and found["title"] is None
    assert found["elements"] == [{"label": "D", "points": [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]},
                                 {"label": "Dataset 1", "points": [[9.0, 8.0]]}]


def test_bar(kernel):
    found = chart(kernel, "plt.bar(['A', 'B'], [100, 200], label='Books');")
    assert found["type"] == "bar" and found["x_scale"] == "categorical"
    assert found["elements"] == [{"label": "A", "group": "Books", "value": 100},
                                 {"label": "B", "group": "Books", "value": 200}]
    found = chart(kernel, "plt.barh(['A', 'B'], [1, 2]);")
    assert [(e["label"], e["value"]) for e in found["elements"]] == [("A", 1), ("B", 2)]
    found = chart(kernel, "plt.hist([1, 2, 2, 3], bins=2);")
    assert [(e["label"], e["value"]) for e in found["elements"]] == [("1.5", 1.0), ("2.5", 3.0)]


def test_pie(kernel):
    found = chart(kernel, "plt.pie([90, 10], labels=['No', 'No, in blue'], autopct='%1.1f%%', startangle=90);")
    assert found == {"type": "pie", "title": None, "elements": [
        {"label": "No", "angle": 324.0, "radius": 1.0}, {"label": "No, in blue", "angle": 36.0, "radius": 1.0}]}


def test_box(kernel):
    found = chart(kernel, "fig, ax = plt.subplots()\nax.boxplot([[1, 2, 3, 4, 20], [4, 5, 6]])\n"
                          "ax.boxplot([[1, 2, 3, 4, 20], [4, 5, 6]], patch_artist=True)\nax.set_title('B');")
    assert found["type"] == "box_and_whisker" and len(found["elements"]) == 2
    assert {k: v for k, v in found["elements"][0].items() if k != "label"} == {
        "min": 1.0, "first_quartile": 2.0, "median": 3.0, "third_quartile": 4.0, "max": 4.0, "outliers": [20]}


def test_several_axes(kernel):
    found = chart(kernel, "fig, axes = plt.subplots(1, 2)\naxes[0].plot([1]); axes[1].scatter([1], [2])\n"
                          "axes[1].set_title('right'); fig.suptitle('Both');")
    assert (found["type"], found["title"]) == ("superchart", "Both")
    assert [(c["type"], c["title"]) for c in found["elements"]] == [("line", None), ("scatter", "right")]


def test_scales(kernel):
    found = chart(kernel, "plt.plot([datetime.date(2023, 9, 1), datetime.date(2023, 9, 2)], ['x', 'y']);")
    assert (found["x_scale"], found["y_scale"]) == ("datetime", "categorical")
    assert found["elements"][0]["points"] == [["2023-09-01T00:00:00", "x"], ["2023-09-02T00:00:00", "y"]]
    assert chart(kernel, "plt.semilogy([1, 10]);")["y_scale"] == "log"


def test_unknown(kernel):
    found = chart(kernel, "fig, ax = plt.subplots()\nax.add_artist(plt.Circle((0, 0), 1)); plt.title('C');")
    assert found == {"type": "unknown", "title": "C", "elements": []}
    assert chart(kernel, "plt.imshow(np.zeros((3, 3))); plt.colorbar();")["type"] == "unknown"


def test_figures_are_shown_once_and_closed(kernel):
    cell = kernel.run("plt.plot([1]); plt.show()\nplt.plot([2]); plt.show(); print(plt.get_fignums())")
    assert len(cell.of("display")) == 2 and cell.stdout == b"[]\n"
    cell = kernel.run("fig = plt.figure(); fig.add_subplot().plot([1, 2])\nfig")
    assert len(cell.of("display")) == 0 and "image/png" in cell.of("result")[0]["data"]
    cell = kernel.run("plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2]); plt.figure();")
    assert len(cell.of("display")) == 2
    assert kernel.run("1").events == [{"type": "result", "count": kernel.number, "data": {"text/plain": "1"}}]
    cell = kernel.run("plt.plot([1])\n1 / 0")
    assert len(cell.of("display")) == 1 and cell.error["name"] == "ZeroDivisionError"
    cell = kernel.run("plt.plot([1]); plt.savefig('x.png'); plt.close()\nimport os; os.path.getsize('x.png') > 0")
    assert cell.text == "True" and cell.of("display") == []


def test_pandas(kernel):
    data = kernel.run("pd.DataFrame({'a': [1, 2], 'b': ['x', None], 't': pd.to_datetime(['2020-01-01', None]),"
                      "'f': [0.5, float('inf')]})").of("result")[0]["data"]
    assert "<table" in data["text/html"] and "2020-01-01" in data["text/plain"]
    assert data[DATA] == {"a": [1, 2], "b": ["x", None], "t": ["2020-01-01T00:00:00", None], "f": [0.5, None]}
    data = kernel.run("pd.DataFrame([[1, 2]], columns=['a', 'a'])").of("result")[0]["data"]
    assert data[DATA] == {"a": [1], "a.1": [2]}
    event = kernel.run("pd.DataFrame({'a': range(1000000)})").of("result")[0]
    assert event["truncated"] == [DATA] and 100000 < len(event["data"][DATA]["a"]) < 200000
    assert DATA not in kernel.run("pd.Series([1])").of("result")[0]["data"]


def test_polars(kernel):
    data = kernel.run("pl.DataFrame({'a': [1, 2], 'd': [datetime.date(2020, 1, 1), None]})").of("result")[0]["data"]
    assert "<table" in data["text/html"] and "shape: (2, 2)" in data["text/plain"]
    assert data[DATA] == {"a": [1, 2], "d": ["2020-01-01", None]}
    event = kernel.run("pl.DataFrame({'a': range(3000000)})").of("result")[0]
    assert event["truncated"] == [DATA]


HOOKS = """
import os, posix, sys
sys.path.insert(0, %r)
import zygote_fork
hooks = zygote_fork.Hooks()
import logging, random, threading
os.register_at_fork(after_in_child=lambda: print("child", flush=True), before=lambda: print("before", flush=True))

def fork():
    sys.stdout.flush()
    if os.fork() == 0:
        sys.stdout.flush()
        os._exit(0)
    os.wait()

fork()
print(len(hooks.needed()))
hooks.give_back()
fork()
for wrong in ({"before": 1}, {}):
    try:
        hooks.take(**wrong)
    except TypeError:
        print("refused")
print(os.register_at_fork is posix.register_at_fork is hooks.register)
"""


def test_numbers_after_a_fork_are_fresh(python):
    code = ("import sys, os, random, numpy.random; sys.path[:0] = %r, %r; import _zygote, zygote_fork\n"
            "new = zygote_fork.Randomness(_zygote)\n"
            "print(new.capsule is not None, len(new.seeds)); sys.stdout.flush()\n"
            "for _ in range(2):\n"
            "    if os.fork() == 0:\n"
            "        new.renew(); print(random.random(), numpy.random.rand(), numpy.random.normal())\n"
            "        sys.stdout.flush(); os._exit(0)\n"
            "    os.wait()\n" % (str(fake_warden.GUEST / "python"), str(ZYGOTE)))
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True)
    is_native, _, numbers = done.stdout.partition(b"\n")
    assert is_native == b"True 1"
    assert len(numbers.split()) == len(set(numbers.split())) == 6


def test_numbers_after_a_fork_are_fresh_with_another_numpy(python):
    code = ("import sys, os, random, numpy.random; sys.path.insert(0, %r); import zygote_fork\n"
            "class Native:\n    set_key = None\n    has_key = staticmethod(lambda *_: False)\n"
            "new = zygote_fork.Randomness(Native)\nrandom.seed(1); numpy.random.seed(1)\n"
            "old = random.random(), numpy.random.rand()\nrandom.seed(1); numpy.random.seed(1)\n"
            "new.renew(); print(random.random() != old[0], numpy.random.rand() != old[1])\n"
            % str(fake_warden.GUEST / "python"))
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"True True\n"


def test_hooks_of_forks_are_the_guests(python):
    """The zygote's own fork runs none; a kernel's Python has them all."""
    code = HOOKS % str(fake_warden.GUEST / "python")
    done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"1\nbefore\nchild\nrefused\nrefused\nTrue\n"
