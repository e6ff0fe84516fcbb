"""failures.py - writes down the names of tests that failed, for tools/run-tests, which tries them again."""
import os
import re

GROUP = re.compile(r"@[\w.]+$")  # that xdist puts behind a name


def note(report):
    """Of each report that pytest has. A worker of xdist sends its own to the process that started it,
    and only that one writes."""
    path = os.environ.get("BAILEY_TEST_FAILURES")
    if path and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(path, "a", encoding="utf-8") as file:
            file.write(GROUP.sub("", report.nodeid) + "\n")
