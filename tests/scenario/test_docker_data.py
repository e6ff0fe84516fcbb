"""
Scenario: the data analyst in a container. `bailey image build --template data`, then the same code as
on this machine, with Docker's limits as they are by default: Polars, Matplotlib, scikit-learn, Node.
"""
import json
import pathlib

import pytest

import data_template
import serve
import support

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
IMAGE = "analyst:1"


@pytest.fixture(scope="module")
def analyst(dockerd):
    """The environment of a bailey whose containers have the data stack, and Git."""
    state = data_template.state()
    before = dockerd.kept()
    done = support.bailey("image", "build", "--template", "data", "--package", "git", "--tag", IMAGE,
                          env={**dockerd.env(), "BAILEY_STATE_DIR": state}, timeout=600)
    assert done.status == 0, done
    yield dockerd.env(DOCKER_IMAGE=IMAGE)
    done = support.bailey("image", "rm", IMAGE, env=dockerd.env())
    assert done.status == 0, done
    assert not dockerd.left_since(before)


def test_the_worked_example(analyst, room):
    """A table, grouped and clustered, with a picture: what `make run` shows, in a container."""
    result = support.Result(support.bailey(
        "run", "--json", "--file", EXAMPLES / "iris.csv", "--out", "got", "--timeout", "120",
        EXAMPLES / "analysis.py", env=analyst, room=room))
    assert result["exit_code"] == 0 and result["stderr"] == "", result
    assert "150 flowers, 3 species" in result["stdout"] and "| setosa     | 50    |" in result["stdout"]
    assert "agree with the species to 0.62" in result["stdout"], result
    assert len((room.work / "got" / "clusters.csv").read_text().splitlines()) == 151
    assert (room.work / "got" / "clusters.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert result.meta["runtime"] == "docker" and not result.meta["oom_killed"], result


# What programs of its kind do beside computing, each with what it prints.
PROBE = """
import glob, json, logging, multiprocessing, os, pty, subprocess, sys
logging.basicConfig(level=logging.DEBUG, filename='/tmp/log')
def home():
    return sorted(glob.glob('/home/user/**', recursive=True, include_hidden=True))
def double(x):
    return 2 * x
def shell(line):
    done = subprocess.run(['sh', '-c', line], capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()
before = home()
seen = {'backend': os.environ['MPLBACKEND'], 'names': [k for k in os.environ if k.startswith('BAILEY')]}
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.savefig('/tmp/x.png')
seen['fonts'] = 'Using fontManager instance from /home/user/.cache' in open('/tmp/log').read()
seen['written'] = sorted(set(home()) - set(before))
seen['template'] = json.load(open('/bailey/template/template.json'))['name']
import numpy, polars
seen['polars'] = polars.DataFrame({'a': range(9)}).lazy().group_by(polars.col('a') % 3).agg(
    polars.len()).collect().height
seen['blas'] = int(numpy.ones((300, 300)).dot(numpy.ones((300, 300)))[0, 0])
with multiprocessing.get_context('fork').Pool(2) as pool:
    seen['pool'] = pool.map(double, [1, 2])
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=1 << 20); block.buf[0] = 7
seen['shared'] = block.buf[0]; block.close(); block.unlink()
master, slave = pty.openpty()
os.write(slave, b'x'); seen['pty'] = os.read(master, 1).decode()
seen['git'] = shell('git init -q /tmp/r && cd /tmp/r && echo a >a && git add a && '
                    'git -c user.name=a -c user.email=a@b commit -qm first && git log --format=%s')
seen['node'] = shell("node -e 'console.log([1, 2].map(x => 2 * x).join())'")
print(json.dumps(seen))
"""


def test_what_such_programs_need(analyst):
    result = support.run_json(PROBE, "--timeout", "120", env=analyst)
    assert result["exit_code"] == 0, result
    assert json.loads(result["stdout"]) == {
        "backend": "agg", "names": [], "fonts": True, "written": [], "template": "data", "polars": 3,
        "blas": 300, "pool": [2, 4], "shared": 7, "pty": "x", "git": "first", "node": "2,4"}, result


def test_a_session_with_cells_of_both_languages(analyst):
    """A dataset that was uploaded, a cell that shows a picture, one of JavaScript."""
    with serve.Daemon(env=analyst) as daemon:
        made = daemon.session()["id"]
        daemon.asked("PUT", f"/v1/sessions/{made}/datasets/iris", (EXAMPLES / "iris.csv").read_bytes(), 201)
        cell = daemon.post(f"/v1/sessions/{made}/code", {"code": (
            "import polars as pl, matplotlib.pyplot as plt\n"
            "t = pl.read_csv('/tmp/data/iris.csv').group_by('species').len()\n"
            "plt.bar(t['species'], t['len']); plt.show()\nt.height"), "timeout": 120})
        assert cell["exit_code"] == 0 and any("image/png" in one["data"] for one in cell["results"]), cell
        assert [one["data"]["text/plain"] for one in cell["results"] if one["type"] == "result"] == ["3"], cell
        script = daemon.post(f"/v1/sessions/{made}/code", {
            "language": "javascript", "code": "const a = [1, 2]; a.map(x => x * 2).join()"})
        assert script["exit_code"] == 0 and script["results"][0]["data"]["text/plain"] == "'2,4'", script
        node = daemon.exec(made, "node", "-e", "console.log(require('os').cpus().length > 0)")
        assert (node["exit_code"], node["stdout"]) == (0, "true\n"), node
        daemon.end(made)
