"""A guest's server against those who reach it by its port, and against the server in between.

docs/security.md, attack 55.
"""
import http.client
import pathlib
import socket

import pytest
import serve
import support

SERVER = pathlib.Path(support.__file__).with_name("guest_server.py").read_text(encoding="utf-8")
OK = "HTTP/1.1 200 OK\r\n"
EVIL = OK + "X-Evil: yes\r\nContent-Length: 4\r\n\r\nevil"


@pytest.fixture(scope="module")
def hostile(daemon):
    """A session whose server answers what a test wishes."""
    session = daemon.session()["id"]
    daemon.write(session, "/workspace/server.py", SERVER.encode())
    started = daemon.background(session, "python3", "/workspace/server.py", "3000")["execution_id"]
    path = f"/v1/sessions/{session}/processes/{started}"
    serve.polled(lambda: daemon.get(path), lambda process: process["stdout_bytes"] > 0, "it listens")
    yield session
    daemon.end(session)


def path_of(session, reply, port=3000):
    return f"/v1/sessions/{session}/ports/{port}/raw?{reply.encode('latin-1').hex()}"


def one_after_the_other(daemon, *paths):
    """Replies on one connection, as a proxy or a browser would read them."""
    connection = daemon.connect()
    replies = []
    for path in paths:
        connection.request("GET", path)
        reply = connection.getresponse()
        try:
            replies.append((reply.status, dict(reply.headers), reply.read()))
        except http.client.IncompleteRead as broken:
            replies.append((reply.status, dict(reply.headers), broken.partial))
            connection.close()
    connection.close()
    return replies


@pytest.mark.parametrize("first", [
    OK + "Content-Length: 2\r\n\r\nok", OK + "Content-Length: 0\r\n\r\n",
    OK + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n" + OK + "Content-Length: 0\r\n\r\n"])
def test_55_a_second_reply_behind_the_first(daemon, hostile, first):
    (status, headers, body), (second, _, health) = one_after_the_other(daemon, path_of(hostile, first + EVIL), "/health")
    assert status in (200, 204, 304) and b"evil" not in body and "X-Evil" not in headers
    assert second == 200 and b"evil" not in health


@pytest.mark.parametrize("reply", [
    OK + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL,
    OK + "Content-Length: 2\r\nContent-Length: 200\r\n\r\nok" + EVIL, OK + "Content-Length: -1\r\n\r\n" + EVIL,
    OK + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + EVIL, OK + "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + EVIL,
    OK + "X: a\rContent-Length: 0\r\n\r\n" + EVIL, OK + "X: a\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
    OK + "X: a\r\n Set-Cookie: b\r\nContent-Length: 0\r\n\r\n", OK + "\x00: a\r\n\r\n", "HTTP/9.9 200 OK\r\n\r\n"])
def test_55_heads_that_two_readers_read_differently(daemon, hostile, reply):
    (status, _, body), (second, _, health) = one_after_the_other(daemon, path_of(hostile, reply), "/health")
    assert status == 502 and b"port_bad_reply" in body and b"evil" not in body
    assert second == 200 and b"evil" not in health


@pytest.mark.parametrize("chunks", ["2\r\nok\r\n", "2\r\nokX\r\n0\r\n\r\n", "fffffffffffffffff\r\nok", "2;\nok\r\n0\r\n\r\n"])
def test_55_a_body_that_is_broken_is_never_whole(daemon, hostile, chunks):
    connection = daemon.connect()
    with pytest.raises((http.client.IncompleteRead, http.client.RemoteDisconnected)):
        connection.request("GET", path_of(hostile, OK + "Transfer-Encoding: chunked\r\n\r\n" + chunks))
        connection.getresponse().read()
    connection.close()
    assert daemon.call("GET", "/health").status == 200


def test_55_headers_without_end(daemon, hostile):
    broker = daemon.get("/v1/info")["broker_pid"]
    for _ in range(5):
        reply = daemon.call("GET", f"/v1/sessions/{hostile}/ports/3000/endless")
        assert reply.status == 502 and "32 KiB" in reply.json()["error"]["message"], reply
    assert daemon.get("/v1/info")["broker_pid"] == broker


def test_55_a_port_of_the_host_is_not_one_of_the_box(daemon, hostile):
    with socket.create_server(("127.0.0.1", 0)) as canary:
        canary.settimeout(0)
        port = canary.getsockname()[1]
        reply = daemon.call("GET", path_of(hostile, "", port))
        assert reply.status == 502 and reply.json()["error"]["code"] == "port_closed", reply
        with pytest.raises(BlockingIOError):
            canary.accept()
