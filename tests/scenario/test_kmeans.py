"""KMeans on a million rows with the data template: inside its memory limit, or `oom_killed`."""
import pytest

import data_template
import serve
import support

MIB = 1 << 20
# 128 MB of numbers, and the same again where KMeans works on a copy of its own.
CODE = """
import numpy
from sklearn.cluster import KMeans
rows = numpy.random.default_rng(7).random((1_000_000, 16))
print('made', rows.nbytes, flush=True)
found = KMeans(4, n_init=1, max_iter=5, random_state=0).fit(rows)
print(found.cluster_centers_.shape, numpy.bincount(found.labels_).sum())
"""


@pytest.fixture(params=["warm", "cold"])
def way(request):
    data_template.state()
    return request.param


def clustered(way, memory):
    """The result with this limit, in a warm interpreter or in one that starts for it."""
    env = {"SANDBOX_TEMPLATE": "data", "SANDBOX_MEMORY_LIMIT": memory,
           "SANDBOX_WARM": "true" if way == "warm" else "false"}
    with serve.Daemon(data_template.env(env)) as daemon:
        def run(code):
            return support.Result(daemon.bailey("run", "--json", "--timeout", "600", "-c", code,
                                                timeout=660))
        if way == "warm":
            serve.polled(lambda: run("import sklearn").meta["warm"], lambda warm: warm != "cold",
                         "the data stack is warm", 120)
        result = run(CODE)
    assert result.meta.get("warm", "cold") in (("pool", "zygote") if way == "warm" else ("cold",))
    return result


def test_enough(way):
    result = clustered(way, "1g")
    assert result["exit_code"] == 0, result
    assert result["stdout"] == "made 128000000\n(4, 16) 1000000\n"
    assert not result.meta["oom_killed"] and not result.meta["timed_out"], result
    assert result.meta["usage"]["max_rss_bytes"] <= 1024 * MIB, result


def test_too_little(way):
    """The kernel ended it, and that is what is said."""
    result = clustered(way, "256m")
    assert result.meta["oom_killed"], result
    assert (result["exit_code"], result.meta["signal"]) == (137, 9), result
    assert result.meta["resource_limits"]["memory_bytes"] == 256 * MIB
    assert not result.meta["timed_out"] and "error" not in result.meta, result
    assert "1000000\n" not in result["stdout"], result
