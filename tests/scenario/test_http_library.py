"""What libmicrohttpd decides before Bailey sees the request, by its version: the table of docs/server.md.
Each request has a second one behind it, which is answered only where the first was served."""
import json
import re

import pytest

from test_server_tcp import Server
from test_torture_tcp import SECOND, say

RUN = b'{"code": "print(1)"}'
CHUNK = b"%x\r\n%s\r\n" % (len(RUN), RUN)
LAST = SECOND.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def JSON(status=400):  # an error of Bailey
    return "JSON", status, 1


def PAGE(status=400):  # an answer of libmicrohttpd
    return "page", status, 1


def TWICE(status=400):  # the same, with its status line twice
    return "page", status, 2


SERVED, CLOSED = ("served", 200, 2), ("closed", None, 0)


def get(*lines, request=b"GET /healthz HTTP/1.1", host=b"Host: localhost"):
    return b"\r\n".join([request, *([host] if host else []), *lines]) + b"\r\n\r\n"


def post(*lines, body=b"0\r\n\r\n"):
    return get(b"Authorization: Bearer KEY", b"Content-Type: application/json", *lines,
               request=b"POST /v1/run HTTP/1.1") + body


def chunks(body):
    return post(b"Transfer-Encoding: chunked", body=body)


# name: the request, what 0.9.75 does, what 1.0.1 does.
ROWS = {
    "length and coding": (post(b"Content-Length: 4", b"Transfer-Encoding: chunked"), JSON(), PAGE()),
    "coding and length": (post(b"Transfer-Encoding: chunked", b"Content-Length: 4"), JSON(), PAGE()),
    "another coding": (post(b"Transfer-Encoding: gzip"), JSON(), PAGE()),
    "no coding": (post(b"Transfer-Encoding:"), JSON(), PAGE()),
    "another coding first": (post(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"), JSON(), PAGE()),
    "another coding last": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"), JSON(), JSON()),
    "two codings": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), JSON(), JSON()),
    "two lengths": (post(b"Content-Length: 4", b"Content-Length: 4"), JSON(), JSON()),
    "two hosts": (get(b"Host: evil.example"), JSON(), JSON()),
    "a malformed host": (get(host=b"Host: a b"), JSON(), JSON()),
    "no host": (get(host=None), TWICE(), PAGE()),
    "lengths": (post(b"Content-Length: 4, 4"), TWICE(), PAGE()),
    "a negative length": (post(b"Content-Length: -1"), TWICE(), PAGE()),
    "an empty length": (post(b"Content-Length:"), TWICE(), PAGE()),
    "a huge length": (post(b"Content-Length: 99999999999999999999"), TWICE(413), PAGE(413)),
    "white space before a colon": (get(b"X : y"), JSON(), PAGE()),
    "white space in a name": (get(b"X Y: z"), JSON(), PAGE()),
    "a bare CR": (get(b"X: y\rz"), JSON(), PAGE()),
    "a control character in a name": (get(b"X\x01: y"), JSON(), JSON()),
    "a control character in a value": (get(b"X: y\x01"), JSON(), JSON()),
    "no colon": (get(b"X"), PAGE(), PAGE()),
    "no name": (get(b": y"), SERVED, PAGE()),
    "a bare LF": (get(b"X: y\nZ: a"), SERVED, PAGE()),
    "a folded line": (get(b"X: y\r\n z"), SERVED, PAGE()),
    "a NUL": (get(b"X: y\0z"), SERVED, PAGE()),
    "a space more": (get(request=b"GET  /healthz HTTP/1.1"), SERVED, PAGE()),
    "a space in the target": (get(request=b"GET /health z HTTP/1.1"), CLOSED, PAGE()),
    "one empty line": (b"\r\n" + get(), SERVED, SERVED),
    "two empty lines": (b"\r\n\r\n" + get(), SERVED, CLOSED),
    "another version": (get(request=b"GET /healthz HTTP/2.0"), PAGE(505), PAGE(505)),
    "no chunk": (chunks(b"zz\r\nabc\r\n"), PAGE(), PAGE()),
    "a chunk that is longer": (chunks(b"3\r\nabcdef\r\n"), PAGE(), PAGE()),
    "a huge chunk": (chunks(b"f" * 18 + b"\r\nabc\r\n"), PAGE(413), PAGE(413)),
    "trailers": (chunks(CHUNK + b"0\r\nX: y\r\nHost: evil.example\r\n\r\n"), SERVED, SERVED),
    "a chunk with an LF": (chunks(CHUNK.replace(b"\r\n", b"\n") + b"0\n\n"), SERVED, PAGE()),
    "an extension": (chunks(CHUNK.replace(b"\r\n", b";a=b\r\n", 1) + b"0\r\n\r\n"), SERVED, PAGE()),
    "an extension at the end": (chunks(CHUNK + b"0;a=b\r\n\r\n"), SERVED, PAGE()),
    "trailers behind an extension": (chunks(CHUNK + b"0;a=b\r\nGET /healthz?: HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                                     SERVED, PAGE()),
    "many headers": (get(*[b"X: y"] * 2000), PAGE(431), PAGE(431)),
    "many arguments": (get(request=b"GET /healthz?" + b"&".join([b"a"] * 2000) + b" HTTP/1.1"), CLOSED, PAGE(431)),
    "a large header": (get(b"X: " + b"y" * 70_000), JSON(431), JSON(431)),
    "a larger header": (get(b"X: " + b"y" * 200_000), PAGE(431), PAGE(431)),
    "a line without end": (chunks(b"0" * 600_000), CLOSED, PAGE(413)),
    "an extension without end": (chunks(b"5;" + b"x" * 600_000), CLOSED, CLOSED),
}


@pytest.fixture(scope="module")
def server():
    with Server({"SANDBOX_HEAD_TIME": "4s"}) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def is_new(server):
    """libmicrohttpd 1.0 and later."""
    version = server.get("/v1/info")["libraries"]["libmicrohttpd"]
    return tuple(map(int, version.split(".")[:2])) >= (1, 0)


@pytest.mark.parametrize("name", ROWS)
def test_who_answers(server, is_new, name):
    request, old, new = ROWS[name]
    who, status, times = new if is_new else old
    got = say(server, request.replace(b"KEY", server.key.encode()) + LAST)
    if who == "page" and not got:  # it closed with bytes unread, which may take its last words along
        return
    assert len(re.findall(rb"HTTP/1\.1 \d{3} ", got)) == times, got[:500]
    if who == "closed":
        assert got == b""
        return
    assert got.startswith(b"HTTP/1.1 %d " % status), got[:500]
    assert (got.count(b"HTTP/1.1 200 ") == 2) == (who == "served"), got[:500]
    assert (b"<html>" in got) == (who == "page"), got[:500]
    if who == "JSON":
        assert json.loads(got.partition(b"\r\n\r\n")[2])["error"]["code"] in ("bad_input", "too_large")


def test_the_version_is_the_owners_to_know(server):
    reply = server.tcp("GET", "/v1/info")
    assert reply.status == 200 and "libraries" not in reply.json(), reply
