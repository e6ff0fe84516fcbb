"""A Prometheus text parser that is not ours reads /metrics."""
import json
import subprocess
from pathlib import Path

import pytest
import serve
import support

# Runs in the client's own environment: families with their type and samples, as JSON.
READ = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
print(json.dumps([{"name": f.name, "type": f.type, "help": f.documentation,
                   "samples": [[s.name, s.labels, s.value] for s in f.samples]}
                  for f in families(sys.stdin.read())]))
"""


@pytest.fixture(scope="module")
def python():
    """The interpreter that has the parser; skips only when PyPI cannot be reached."""
    done = subprocess.run([support.REPO / "tools" / "interop-setup", "prometheus"], text=True,
                          capture_output=True, timeout=900, check=False)
    if done.returncode == 2:
        pytest.skip(f"PyPI cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().split("\n")[-1]) / "prometheus" / "bin" / "python"


def test_the_parser_reads_it(python):
    with serve.Daemon() as daemon:
        made = daemon.session(name="read")["id"]
        daemon.exec(made, "echo", "1")
        daemon.post("/v1/run", {"language": "python", "code": "print(1)"})
        text = daemon.asked("GET", "/metrics").body
    done = subprocess.run([python, "-c", READ], input=text, capture_output=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stderr
    families = {one["name"]: one for one in json.loads(done.stdout)}
    assert families["bailey_results"]["type"] == "counter", families
    assert families["bailey_sessions"]["samples"] == [["bailey_sessions", {"tenant": "local"}, 1.0]]
    times = families["bailey_execution_seconds"]
    assert times["type"] == "histogram" and times["help"], times
    runs = [one for one in times["samples"] if one[1].get("kind") == "run"]
    buckets = [one[2] for one in runs if one[0].endswith("_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == 1.0, runs
    assert [one[2] for one in runs if one[0].endswith("_count")] == [1.0], runs
    # Every line is one that the parser took, and no label set is there twice.
    samples = [(one[0], tuple(sorted(one[1].items()))) for family in families.values()
               for one in family["samples"]]
    assert len(samples) == len(set(samples)) == sum(
        1 for line in text.decode().splitlines() if not line.startswith("#"))
