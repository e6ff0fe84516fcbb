"""conftest.py - notes what a test of the smoke really calls.

Each walk is a table: a command, or a group of routes, and the function that uses it. With the fixtures
`called` and `asked` a row fails when its function does not use what the row names.
"""
import http.client

import pytest

import support
import wsclient


@pytest.fixture
def called(monkeypatch):
    """Names of the commands of bailey that the test calls."""
    seen, command = set(), support.command

    def noting(*args, **rest):
        seen.add(str(args[0]))
        return command(*args, **rest)

    monkeypatch.setattr(support, "command", noting)
    return seen


@pytest.fixture
def asked(monkeypatch):
    """Paths that the test asks for over HTTP, WebSockets included."""
    seen, request, opened = set(), http.client.HTTPConnection.putrequest, wsclient.WebSocket.__init__

    def noting(self, method, url, *args, **rest):
        seen.add(url.partition("?")[0])
        return request(self, method, url, *args, **rest)

    def opening(self, sock, path, *args, **rest):
        seen.add(path.partition("?")[0])
        return opened(self, sock, path, *args, **rest)

    monkeypatch.setattr(http.client.HTTPConnection, "putrequest", noting)
    monkeypatch.setattr(wsclient.WebSocket, "__init__", opening)
    return seen
