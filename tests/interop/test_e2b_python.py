"""E2B's Python packages work unchanged: one file of tests for each capability (docs/e2b.md)."""
import e2b_kit
import pytest

ROWS = ["commands", "files", "signing", "terminals", "repositories", "lifecycle", "pausing", "interpreter", "asynchronous", "ports"]


@pytest.fixture(scope="module")
def server():
    with e2b_kit.E2bServer() as running:
        yield running


@pytest.mark.parametrize("row", ROWS)
def test_the_newest_package(server, row):
    e2b_kit.run_python(server, "e2b-py-new", row)
