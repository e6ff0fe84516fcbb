"""E2B's packages at addresses of other kinds: a domain of one's own with wildcard TLS, and E2B_DEBUG."""
import shutil
import socket

import e2b_kit
import pytest

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")


@pytest.fixture(scope="module")
def domain():
    with e2b_kit.DomainServer() as running:
        yield running


def test_a_domain_of_ones_own_in_python(domain):
    e2b_kit.run_python(domain, "e2b-py-new", "domain")


@needs_node
def test_a_domain_of_ones_own_in_javascript(domain):
    e2b_kit.run_node(domain, "e2b-js-new", "domain")


@pytest.fixture(scope="module")
def debug():
    for port in (49983, 49999):  # clients with E2B_DEBUG know only these
        with socket.socket() as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                asked.bind(("127.0.0.1", port))
            except OSError:
                pytest.skip(f"another program has the port {port}")
    with e2b_kit.E2bServer({"SANDBOX_E2B_DEBUG": "true"}, addresses=["127.0.0.1:49983", "127.0.0.1:49999"]) as running:
        yield running


DEBUG = {"E2B_DEBUG": "true", "E2B_API_URL": None, "E2B_SANDBOX_URL": None, "E2B_API_KEY": None}


def test_debug_clients_in_python(debug):
    e2b_kit.run_python(debug, "e2b-py-new", "debug", **DEBUG)


@needs_node
def test_debug_clients_in_javascript(debug):
    e2b_kit.run_node(debug, "e2b-js-new", "debug", **DEBUG)
