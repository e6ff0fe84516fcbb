"""domain.py - E2B_DOMAIN instead of the two addresses: https, and a host for each sandbox.

Its hosts file is the test's own (e2b_kit.DomainServer). The newest package reads it once, so the sandbox is made and its
name written there before the package is used.
"""
import json
import os
import urllib.request

import pytest
from e2b import Sandbox as Plain
from e2b_code_interpreter import Sandbox

DOMAIN = os.environ["E2B_DOMAIN"]


def make():
    request = urllib.request.Request(f"https://api.{DOMAIN}/v2/sandboxes", data=b'{"templateID":"base"}', headers={
        "X-API-KEY": os.environ["E2B_API_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        made = json.loads(reply.read())["sandboxID"]
    name = DOMAIN.split(":")[0]
    with open("/etc/hosts", "a") as hosts:
        hosts.write(f"127.0.0.1 49983-{made}.{name} 49999-{made}.{name}\n")
    return made


SANDBOX = make()


@pytest.fixture
def made():
    return Sandbox.connect(SANDBOX)


def test_every_capability_is_at_the_sandboxes_own_host(made):
    assert made.commands.run("echo $((6 * 7))").stdout == "42\n"
    made.files.write("a.txt", "text")
    assert made.files.read("a.txt") == "text"
    assert [one.name for one in made.files.list(".")].count("a.txt") == 1
    assert made.run_code("6 * 7").text == "42"
    context = made.create_code_context()
    assert made.run_code("7", context=context).text == "7"
    assert made.is_running() is True
    url = made.download_url("a.txt")
    assert url.startswith(f"https://49983-{made.sandbox_id}.{DOMAIN}/files")
    with urllib.request.urlopen(url) as reply:
        assert reply.read() == b"text"


def test_a_sandbox_that_is_gone_does_not_run(made):
    assert made.kill() is True
    assert made.is_running() is False


def test_the_control_plane_is_at_the_host_api():
    own = Plain.create()
    assert own.get_host(3000) == f"3000-{own.sandbox_id}.{DOMAIN}"
    assert own.sandbox_id in [one.sandbox_id for one in Plain.list().next_items()]
    assert own.kill() is True
