"""Outputs by id: hash, type by content, time, signed links, ranges, safe headers, and their end."""
import contextlib
import hashlib
import hmac
import re
import sqlite3
import time
import urllib.parse

import pytest

import serve
import support
import tcp

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


@pytest.fixture(scope="module")
def server():
    with tcp.Server() as running:
        running.acme = running.new_key(tenant="acme", scopes=["sessions", "files", "run"])
        running.evil = running.new_key(tenant="evil", scopes=["sessions", "files", "run"])
        yield running


def make(server, files, key=None):
    """A session whose command left these in /tmp/output; its id, and the outputs by name."""
    key = key or server.acme
    session = server.tcp("POST", "/v1/sessions", {}, key=key).json()["id"]
    write(server, session, files, key)
    return session, listed(server, session, key)


def write(server, session, files, key=None):
    for name, data in files.items():
        query = urllib.parse.urlencode({"path": f"/tmp/output/{name}"})
        reply = server.tcp("PUT", f"/v1/sessions/{session}/files?{query}", data, key=key or server.acme)
        assert reply.status == 200, reply
    done = server.tcp("POST", f"/v1/tools/sandbox_exec?session={session}",
                      {"command": ["true"]}, key=key or server.acme)
    assert done.status == 200, done


def listed(server, session, key=None):
    reply = server.tcp("GET", f"/v1/sessions/{session}/outputs", key=key or server.acme)
    assert reply.status == 200, reply
    return {each["name"]: each for each in reply.json()["outputs"]}


def end(server, session, key=None):
    reply = server.tcp("DELETE", f"/v1/sessions/{session}", key=key or server.acme)
    assert reply.status == 200, reply


def get(server, output, status=200, key=None, **headers):
    reply = server.tcp("GET", output["url"], headers={name.replace("_", "-"): value for name, value
                                                      in headers.items()}, key=key or server.acme)
    assert reply.status == status, reply
    return reply


@pytest.fixture(scope="module")
def picture(server):
    session, outputs = make(server, {"chart.png": PNG})
    yield outputs["chart.png"]
    end(server, session)


# --- what it is


def test_every_output_has_an_id(server):
    session, outputs = make(server, {
        "a.csv": b"a,b\n1,2\n", "lies.png": b"no picture", "page.txt": b"<html><script>",
        "sub/deep.json": b"{}"})
    for name, each in outputs.items():
        assert re.fullmatch(r"a_[0-9a-f]{32}", each["id"]), each
        assert each["url"] == f"/v1/artifacts/{each['id']}"
        info = server.tcp("GET", each["url"] + "/info", key=server.acme).json()
        assert info["name"] == name and info["sha256"] == each["sha256"] == serve.sha256(
            get(server, each).body)
        assert info["session_id"] == session and info["kept"] is False and info["expires_at"]
    assert len({each["id"] for each in outputs.values()}) == 4
    assert {name: get(server, each).headers["Content-Type"] for name, each in outputs.items()} == {
        "a.csv": "text/csv", "lies.png": "text/plain", "page.txt": "text/html",
        "sub/deep.json": "application/json"}
    end(server, session)


def test_headers_let_no_browser_run_it(server):
    session, outputs = make(server, {"x \u00e4\".html": b"<script>alert(1)</script>",
                                     "a.svg": b"<svg onload='alert(1)'/>"})
    addresses = [each["url"] for each in outputs.values()]
    addresses += [f"/v1/sessions/{session}/outputs/{serve.quoted(name)}" for name in outputs]
    addresses.append(f"/v1/sessions/{session}/files?path=" + serve.quoted("/tmp/output/a.svg"))
    for address in addresses:
        reply = server.tcp("GET", address, key=server.acme)
        assert reply.status == 200, reply
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Disposition"].startswith("attachment; ")
        assert "sandbox" in reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    reply = server.tcp("GET", outputs["x \u00e4\".html"]["url"], key=server.acme)
    assert reply.headers["Content-Disposition"] == (
        "attachment; filename=\"x ___.html\"; filename*=UTF-8''x%20%C3%A4%22.html")
    end(server, session)


def test_a_new_content_has_a_new_id(server):
    session, before = make(server, {"a.txt": b"one", "b.txt": b"same"})
    write(server, session, {"a.txt": b"two", "b.txt": b"same"})
    after = listed(server, session)
    assert after["b.txt"]["id"] == before["b.txt"]["id"]
    assert after["a.txt"]["id"] != before["a.txt"]["id"]
    assert get(server, after["a.txt"]).body == b"two"
    get(server, before["a.txt"], 404)
    end(server, session)


# --- ranges


@pytest.mark.parametrize("wanted, first, last", [
    ("bytes=0-0", 0, 0), ("bytes=5-9", 5, 9), ("bytes=10000-", 10000, len(PNG) - 1),
    ("bytes=-7", len(PNG) - 7, len(PNG) - 1), ("bytes=0-999999", 0, len(PNG) - 1),
    ("bytes=-999999", 0, len(PNG) - 1), ("bytes=3-99999999999999999999999", 3, len(PNG) - 1),
    (f"bytes={len(PNG) - 1}-{len(PNG) - 1}", len(PNG) - 1, len(PNG) - 1), ("bytes=,5-9 ,", 5, 9)])
def test_a_range(server, picture, wanted, first, last):
    reply = get(server, picture, 206, Range=wanted)
    assert reply.body == PNG[first:last + 1]
    assert reply.headers["Content-Range"] == f"bytes {first}-{last}/{len(PNG)}"
    assert reply.headers["ETag"] == f'"{picture["sha256"]}"'


@pytest.mark.parametrize("wanted", [f"bytes={len(PNG)}-", "bytes=-0", "bytes=99999999999-",
                                    "bytes=99999999999999999999999-", f"bytes={len(PNG)}-{len(PNG)}"])
def test_a_range_that_is_not_there(server, picture, wanted):
    reply = get(server, picture, 416, Range=wanted)
    assert reply.headers["Content-Range"] == f"bytes */{len(PNG)}"
    assert (reply.error["code"], reply.error["field"]) == ("range_not_satisfiable", "Range")


@pytest.mark.parametrize("wanted", ["bytes=1-2,4-5", "bytes=b-a", "items=0-1", "bytes=5-1", "bytes="])
def test_a_range_that_nobody_understands_is_all_of_it(server, picture, wanted):
    reply = get(server, picture, 200, Range=wanted)
    assert reply.body == PNG and reply.headers["Accept-Ranges"] == "bytes"


def test_conditions(server, picture):
    tag = get(server, picture).headers["ETag"]
    assert get(server, picture, 206, Range="bytes=0-1", If_Range=tag).body == PNG[:2]
    assert get(server, picture, 200, Range="bytes=0-1", If_Range='"other"').body == PNG
    assert get(server, picture, 304, If_None_Match=tag).body == b""
    get(server, picture, 200, If_None_Match='"other"')


def test_head(server, picture):
    reply = server.tcp("HEAD", picture["url"], key=server.acme)
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["Content-Length"] == str(len(PNG))
    # Ranges are for GET.
    reply = server.tcp("HEAD", picture["url"], headers={"Range": "bytes=0-0"}, key=server.acme)
    assert (reply.status, reply.headers["Content-Length"]) == (200, str(len(PNG)))


def test_an_empty_one(server):
    session, outputs = make(server, {"empty.txt": b""})
    empty = outputs["empty.txt"]
    assert empty["sha256"] == serve.sha256(b"") and get(server, empty).body == b""
    get(server, empty, 416, Range="bytes=0-")
    get(server, empty, 200, Range="bytes=-1")
    end(server, session)


# --- signed links


def link(server, output, **body):
    reply = server.tcp("POST", output["url"] + "/link", body, key=server.acme)
    assert reply.status == 201, reply
    return reply.json()["url"]


def test_a_link_needs_no_key(server, picture):
    url = link(server, picture)
    reply = server.tcp("GET", url, key=False)
    assert reply.status == 200 and reply.body == PNG
    assert server.tcp("GET", url, headers={"Range": "bytes=0-3"}, key=False).body == PNG[:4]
    # For nothing else, and to nobody else without it.
    assert server.tcp("GET", picture["url"], key=False).status == 401
    assert server.tcp("GET", url.replace("?", "/info?"), key=False).status == 401


@pytest.mark.attack(85)
def test_a_link_that_was_changed(server, picture):
    url = link(server, picture)
    path, _, query = url.partition("?")
    fields = dict(urllib.parse.parse_qsl(query))
    later = str(int(fields["expires"]) + 1)
    for changed in ({**fields, "expires": later}, {**fields, "signature": "0" * 64},
                    {**fields, "signature": fields["signature"].upper()}, {**fields, "signature": ""},
                    {"expires": later}, {"signature": fields["signature"]},
                    {**fields, "expires": "soon"}, {**fields, "expires": "-1"},
                    {**fields, "expires": "9" * 30}, {**fields, "expires": "0" + fields["expires"]}):
        reply = server.tcp("GET", path + "?" + urllib.parse.urlencode(changed), key=False)
        assert (reply.status, reply.error["code"]) == (403, "link_expired"), (changed, reply)
    other = path[:-1] + ("0" if path[-1] != "0" else "1")
    assert server.tcp("GET", f"{other}?{query}", key=False).status == 403
    reply = server.tcp("GET", url + "&more=1", key=False)
    assert (reply.status, reply.error["code"]) == (400, "unknown_parameter")


def test_a_link_is_not_longer_than_configured(server, picture):
    """Also when more is asked for; an hour is the default."""
    short, long = link(server, picture, seconds=5), link(server, picture, seconds=80000)
    ends = [int(re.search(r"expires=(\d+)", url).group(1)) for url in (short, long)]
    assert 3500 < ends[1] - ends[0] < 3700
    for seconds in (0, -1, "x", 1e9):
        reply = server.tcp("POST", picture["url"] + "/link", {"seconds": seconds}, key=server.acme)
        assert reply.status == 400, reply


# --- of whom it is


def test_another_tenants_is_not_there(server, picture):
    never = "/v1/artifacts/a_" + "0" * 32
    for method, suffix, body in (("GET", "", None), ("GET", "/info", None), ("POST", "/link", {}),
                                 ("POST", "/keep", {}), ("DELETE", "", None)):
        there = server.tcp(method, picture["url"] + suffix, body, key=server.evil)
        nowhere = server.tcp(method, never + suffix, body, key=server.evil)
        assert there.status == nowhere.status == 404, (method, suffix, there, nowhere)
        assert there.error["code"] == nowhere.error["code"] == "not_found"
    assert get(server, picture).body == PNG


@pytest.mark.parametrize("name", ["x", "a_", "a_zz", "a_" + "0" * 500, "..", "a_..%2f..%2findex.db"])
def test_ids_that_are_none(server, name):
    assert server.tcp("GET", f"/v1/artifacts/{name}", key=server.acme).status in (400, 404)


# --- how long


def test_it_goes_with_its_session_unless_it_is_kept(server):
    session, outputs = make(server, {"gone.txt": b"gone", "kept.txt": b"kept"})
    reply = server.tcp("POST", outputs["kept.txt"]["url"] + "/keep", {}, key=server.acme)
    assert reply.status == 200 and reply.json()["kept"] is True and reply.json()["expires_at"] is None
    url = link(server, outputs["gone.txt"])
    end(server, session)
    get(server, outputs["gone.txt"], 404)
    assert server.tcp("GET", url, key=False).status == 404
    assert get(server, outputs["kept.txt"]).body == b"kept"
    for key, there in ((server.acme, True), (server.evil, False)):
        listing = server.tcp("GET", "/v1/artifacts?kept=true", key=key).json()["artifacts"]
        assert (outputs["kept.txt"]["id"] in [each["id"] for each in listing]) is there
    left = server.state / "output" / ".by-id"
    assert outputs["kept.txt"]["id"] in [path.name for path in left.iterdir()]
    assert outputs["gone.txt"]["id"] not in [path.name for path in left.iterdir()]
    assert server.tcp("DELETE", outputs["kept.txt"]["url"], key=server.acme).status == 200
    get(server, outputs["kept.txt"], 404)


def test_the_owners_own_copies_stay(server):
    """What the owner of the machine made lies in output/, which is his to clear."""
    session = server.session()["id"]
    reply = server.post("/v1/tools/sandbox_exec",
                        {"command": ["sh", "-c", "echo mine >/tmp/output/own.txt"]}, session=session)
    assert reply["exit_code"] == 0, reply
    saved = server.state / "output" / f"session_{session}" / "own.txt"
    assert saved.read_text() == "mine\n"
    server.end(session)
    assert saved.read_text() == "mine\n"


def test_its_time_is_over():
    """Nobody has to ask for it: its bytes go by themselves."""
    with tcp.Server({"SANDBOX_ARTIFACT_TIME": "1ms"}) as server:
        server.acme = server.new_key(tenant="acme", scopes=["sessions", "files", "run"])
        session, outputs = make(server, {"a.txt": b"a"})
        left = server.state / "output" / ".by-id" / outputs["a.txt"]["id"]
        support.wait_until(lambda: not left.exists(), "its bytes are gone")
        get(server, outputs["a.txt"], 404)
        # The output itself is still its session's.
        reply = server.tcp("GET", f"/v1/sessions/{session}/outputs/a.txt", key=server.acme)
        assert reply.status == 200 and reply.body == b"a"
        end(server, session)


def test_it_survives_the_next_start():
    """What is kept, and the links to it; and a clock may be a little off."""
    with tcp.Server() as server:
        server.acme = server.new_key(tenant="acme", scopes=["sessions", "files", "run"])
        session, outputs = make(server, {"a.txt": b"a", "gone.txt": b"b"})
        kept = outputs["a.txt"]
        server.tcp("POST", kept["url"] + "/keep", {}, key=server.acme)
        url = link(server, kept)
        server.stop()
        assert [path.name for path in (server.state / "output" / ".by-id").iterdir()] == [kept["id"]]
        sign = signer(server, kept)
        with tcp.Server(room=server.room) as again:
            assert again.tcp("GET", url, key=False).body == b"a"
            assert again.tcp("GET", kept["url"], key=server.acme).body == b"a"
            now = int(time.time())
            assert again.tcp("GET", sign(now), key=False).status == 200  # just over when it comes
            for late in (now - 31, now - 3600, 0):
                assert again.tcp("GET", sign(late), key=False).status == 403


def signer(server, output):
    """Makes links as the daemon does, which is not there: it has its index for itself."""
    with contextlib.closing(sqlite3.connect(next(server.state.rglob("index.db")))) as index:
        text, = index.execute("SELECT value FROM secret WHERE name = 'links'").fetchone()
    secret = hashlib.sha256(text.encode()).digest()

    def sign(expires):
        message = f"artifact\n{output['id']}\n{expires}".encode()
        return f"{output['url']}?" + urllib.parse.urlencode(
            {"expires": expires, "signature": hmac.new(secret, message, "sha256").hexdigest()})
    return sign
