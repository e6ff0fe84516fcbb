"""Scalebox's npm and PyPI packages work unchanged (docs/scalebox.md)."""
import os
import shutil

import pytest
import scalebox_kit


@pytest.fixture(scope="module")
def server():
    with scalebox_kit.ScaleboxServer() as running:
        yield running


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_the_newest_npm_package(server):
    scalebox_kit.run_node(server, "scalebox-js", "sandbox")


@pytest.mark.parametrize("row", ["sandbox", "asynchronous"])
def test_the_newest_python_package(server, row):
    scalebox_kit.run_python(server, "scalebox-py", row)


OLD = pytest.mark.skipif(not os.environ.get("BAILEY_CLIENT_MATRIX"), reason="`make test-clients` runs old versions")


@OLD
@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_an_old_npm_package(server):
    scalebox_kit.run_node(server, "scalebox-js-3.4", "sandbox")


@OLD
def test_an_old_python_package(server):
    scalebox_kit.run_python(server, "scalebox-py-old", "sandbox")
