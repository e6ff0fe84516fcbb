"""verdicts.py - what the tests of known attacks found, for the table of docs/security.md.

A test of an attack has its number: in its name (test_76_...) or by the marker attack(76), which also names a runtime that no
parameter of the test has: attack(64, runtime="docker"). With $BAILEY_ESCAPE_RESULTS
each verdict is appended to that file, one JSON object a line, from which tools/print-escape-table prints the table.
"""
import json
import os
import re

import pytest

import runtimes

RESULTS = os.environ.get("BAILEY_ESCAPE_RESULTS")
# Daemons and boxes of an ordinary user are a parameter of some tests, whatever its name; all others are root's.
DAEMON_WAYS = {"one-id": "ordinary", "ordinary": "ordinary", "split": "root"}


def number(items):
    """Gives tests with a number in their name the marker, so that `-m attack` selects all of them."""
    for item in items:
        named = re.match(r"test_(\d\d)_", item.name)
        if named and "escape" in item.path.parts:
            item.add_marker(pytest.mark.attack(int(named[1])))


def way_of(item):
    """(the way its boxes are made, the runtime), from the test's parameters."""
    runtime = item.get_closest_marker("attack").kwargs.get("runtime")
    if runtime:
        return "root", runtime
    params = item.callspec.params if hasattr(item, "callspec") else {}
    way = params.get("way")
    if way in runtimes.OTHERS or "runtime" in params:
        return "root", params.get("runtime", way)
    for value in params.values():
        if isinstance(value, str) and value in DAEMON_WAYS:
            return DAEMON_WAYS[value], "local"
    return way or "root", "local"


def record(item, report):
    marker = item.get_closest_marker("attack")
    if not RESULTS or not marker or (report.when in ("setup", "teardown") and report.passed):
        return
    way, runtime = way_of(item)
    row = {"attack": marker.args[0], "words": re.match(r"test_(?:\d\d_)?(\w+)", item.name)[1].replace("_", " "),
           "test": item.nodeid, "way": way, "runtime": runtime, "outcome": report.outcome, "when": report.when,
           "reason": str(report.longrepr[2]) if report.skipped and isinstance(report.longrepr, tuple) else ""}
    with open(RESULTS, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
