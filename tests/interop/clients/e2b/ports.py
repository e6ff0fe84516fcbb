"""ports.py - a server in the sandbox, at the host that get_host() gives and by E2B's headers."""
import os
import time
import urllib.error
import urllib.request

import pytest

URL = os.environ["E2B_SANDBOX_URL"]


@pytest.fixture(scope="module")
def serving(sandbox):
    sandbox.commands.run("echo hello >hello.txt")
    handle = sandbox.commands.run("python3 -u -m http.server 3000", background=True)
    deadline = time.monotonic() + 60
    while True:
        try:
            fetch(sandbox, "/", {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "3000"})
            break
        except urllib.error.HTTPError as error:
            assert error.code == 502 and time.monotonic() < deadline
    yield sandbox
    handle.kill()


def fetch(sandbox, path, headers):
    """The host is a name that not every resolver knows: the request goes to the server's address."""
    return urllib.request.urlopen(urllib.request.Request(URL + path, headers=headers), timeout=60).read()


def test_the_host_of_a_port(serving):
    host = serving.get_host(3000)
    assert host == f"3000-{serving.sandbox_id}.localhost:{URL.rpartition(':')[2]}"
    assert fetch(serving, "/hello.txt", {"Host": host}) == b"hello\n"


def test_the_headers_of_a_port(serving):
    headers = {"E2b-Sandbox-Id": serving.sandbox_id, "E2b-Sandbox-Port": "3000"}
    assert fetch(serving, "/hello.txt", headers) == b"hello\n"
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(serving, "/", {**headers, "E2b-Sandbox-Port": "3001"})
    assert caught.value.code == 502 and b"port is not open" in caught.value.read()
