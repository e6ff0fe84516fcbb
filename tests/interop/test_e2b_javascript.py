"""E2B's npm packages work unchanged: one file of tests for each capability (docs/e2b.md)."""
import shutil

import e2b_kit
import pytest

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")


@pytest.fixture(scope="module")
def server():
    with e2b_kit.E2bServer() as running:
        yield running


@pytest.mark.parametrize("row", ["commands", "files", "lifecycle", "pausing", "interpreter"])
def test_the_newest_package(server, row):
    e2b_kit.run_node(server, "e2b-js-new", row)
