"""The data template that ships: Polars, NumPy, Matplotlib, seaborn and scikit-learn in a box, with what they read
and write tables by."""
import pathlib

import pytest

import data_template
import serve
import support

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def yard():
    data_template.state()
    # No warm interpreters: they come and go by themselves, and `bailey run` makes its own boxes.
    with serve.Daemon(data_template.env({"SANDBOX_WARM": "false"})) as running:
        yield running


def run(yard, code, *options):
    return yard.bailey("run", "--template", "data", *options, "-c", code)


def test_the_worked_example(yard):
    """What `make run` runs: loaded with Polars, clustered, saved as CSV and as a picture."""
    out = yard.room.work / "out"
    done = yard.bailey("run", "--template", "data", "--file", EXAMPLES / "iris.csv", "--out", out,
                       EXAMPLES / "analysis.py")
    assert done.status == 0, done
    assert "150 flowers, 3 species" in done.stdout
    assert "| setosa     | 50    |" in done.stdout, done.stdout
    assert "agree with the species to 0.62" in done.stdout, done.stdout
    assert len((out / "clusters.csv").read_text().splitlines()) == 151
    assert (out / "clusters.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_matplotlib_writes_nothing_at_first_use(yard):
    """Its list of fonts is the template's, and taken as it is."""
    done = run(yard, "import glob, logging, os\n"
                     "def all(): return set(glob.glob('/home/user/**', recursive=True,"
                     " include_hidden=True))\n"
                     "before = all()\n"
                     "logging.basicConfig(level=logging.DEBUG)\n"
                     "import matplotlib.pyplot as plt\n"
                     "plt.plot([1, 2])\nplt.title('a')\nplt.savefig('/tmp/x.png')\n"
                     "print(sorted(all() - before), plt.get_backend())\n")
    assert done.status == 0, done
    assert done.stdout == "[] agg\n", done
    assert "Using fontManager instance from /home/user/.cache/matplotlib" in done.stderr, done.stderr
    assert "generated new fontManager" not in done.stderr


def test_versions_are_the_locked_ones(yard):
    found = {one["name"].lower(): one["version"]
             for one in yard.get("/v1/templates/data")["packages"]}
    wanted = dict(line.split(" ")[0].split("==")
                  for line in data_template.LOCK.read_text().splitlines() if "==" in line)
    assert {name.replace("_", "-"): version for name, version in found.items()} == wanted


def test_built_again_is_quick_and_the_same(yard):
    done = yard.bailey("template", "build", "data")
    assert done.status == 0 and "is there already" in done.stderr, done


def test_threads_that_are_used_work(yard):
    done = run(yard, "import numpy, polars\nfrom sklearn.cluster import KMeans\n"
                     "x = numpy.random.default_rng(1).random((20000, 3))\n"
                     "print(KMeans(4, n_init=2, random_state=0).fit(x).inertia_ > 0,\n"
                     "      polars.DataFrame(x).select(polars.all().sum()).shape)\n")
    assert done.status == 0 and done.stdout == "True (1, 3)\n", done


def test_the_whole_is_intact(yard):
    done = yard.bailey("template", "verify", "data", timeout=support.PATIENCE * 4)
    assert done.status == 0, done


FRAME = "frame = pl.DataFrame({'city': ['Oslo', 'Rome', None], 'degrees': [15.2, 24.1, 3.5]})\n"
FRAMES = "import pandas as pd, polars as pl\n" + FRAME


def test_polars_to_pandas_and_back(yard):
    """Strings are what needs more than NumPy."""
    done = run(yard, FRAMES + "pandas = frame.to_pandas()\n"
                              "print(pandas['city'][0], pandas['city'].isna().sum(), pl.from_pandas(pandas).equals(frame))\n")
    assert done.status == 0 and done.stdout == "Oslo 1 True\n", done


def test_parquet_of_both_is_read_by_both(yard):
    done = run(yard, FRAMES + "frame.write_parquet('/tmp/a.parquet')\n"
                              "frame.to_pandas().to_parquet('/tmp/b.parquet')\n"
                              "for name in ('/tmp/a.parquet', '/tmp/b.parquet'):\n"
                              "    print(pl.read_parquet(name).equals(frame), pd.read_parquet(name)['city'][1])\n")
    assert done.status == 0 and done.stdout == "True Rome\nTrue Rome\n", done


def test_excel_of_both_is_read_by_both(yard):
    done = run(yard, FRAMES + "frame.write_excel('/tmp/a.xlsx')\n"
                              "frame.to_pandas().to_excel('/tmp/b.xlsx', index=False)\n"
                              "for name in ('/tmp/a.xlsx', '/tmp/b.xlsx'):\n"
                              "    print(pl.read_excel(name).equals(frame), pd.read_excel(name)['city'][1])\n")
    assert done.status == 0 and done.stdout == "True Rome\nTrue Rome\n", done
