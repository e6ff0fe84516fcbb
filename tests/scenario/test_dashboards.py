"""What deploy/ gives a monitoring system names only metrics and labels that a server has."""
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAME = re.compile(r"\b((?:bailey|process)_[a-z0-9_]+)(?:\{([^}]*)\})?")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
OF_PROMETHEUS = {"job", "instance", "le"}


def known():
    """{name as it is scraped: its labels}, from the page that is printed from the table."""
    found = {}
    for row in (ROOT / "docs/metrics.md").read_text().splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 6 and cells[1].startswith("`") and cells[2] in SUFFIXES:
            for suffix in SUFFIXES[cells[2]]:
                found[cells[1].strip("`") + suffix] = set(re.findall(r"`([a-z]+)`", cells[3]))
    assert "bailey_build_info" in found and "bailey_execution_seconds_bucket" in found, found
    return found


def dashboard():
    whole = json.loads((ROOT / "deploy/grafana/bailey.json").read_text())
    rows = [target["expr"] for panel in whole["panels"] for target in panel["targets"]]
    return rows + [one["query"]["query"] for one in whole["templating"]["list"] if one["type"] == "query"]


def alerts():
    lines = (ROOT / "deploy/prometheus/bailey-alerts.yml").read_text().splitlines()
    return [line for line in lines if not line.lstrip().startswith(("#", "summary", "description"))]


@pytest.mark.parametrize("expressions", [dashboard, alerts])
def test_every_metric_and_label_exists(expressions):
    metrics, seen = known(), set()
    for expression in expressions():
        for name, matchers in NAME.findall(expression):
            assert name in metrics, f"{name} in: {expression}"
            labels = set(re.findall(r"([a-z]+)=", matchers))
            assert labels <= metrics[name] | OF_PROMETHEUS, (labels, metrics[name], expression)
            seen.add(name)
    assert len(seen) >= 8, seen
