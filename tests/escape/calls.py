"""calls.py - every call of a session that takes a path, in one shape: (daemon, session, path) -> Reply.

A path is bytes, so that a NUL and what is no UTF-8 can be sent: percent-encoded in an address, and
raw in a JSON body.
"""
import json
import urllib.parse

import serve


def quoted(path):
    return urllib.parse.quote_from_bytes(path, safe="")


def in_query(method, place="", more="", body=None):
    def call(daemon, session, path):
        return daemon.call(method, f"/v1/sessions/{session}/files{place}?path={quoted(path)}{more}",
                           body)
    return call


def in_json(path):
    """A JSON string with these bytes as they are; what JSON itself has to escape is escaped."""
    text = path.decode("utf-8", "surrogateescape")
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def in_body(place, template):
    def call(daemon, session, path):
        return daemon.call("POST", place.replace("SESSION", session),
                           template.replace(b"PATH", in_json(path)),
                           {"Content-Type": "application/json"})
    return call


def watch(daemon, session, path):
    """Only the head of the answer: a stream that began goes on."""
    connection = serve.Connection(daemon.socket)
    connection.request("GET", f"/v1/sessions/{session}/files/watch?path={quoted(path)}")
    answer = connection.getresponse()
    body = answer.read() if answer.status != 200 else b""
    connection.close()
    return serve.Reply(answer.status, answer.headers, body)


FILES = "/v1/sessions/SESSION/files"
READS = {
    "read": in_query("GET"),
    "read a part": in_query("GET", more="&offset=1&length=3"),
    "stat": in_query("GET", "/stat"),
    "list": in_query("GET", "/list"),
    "list all": in_query("GET", "/list", "&depth=0"),
    "watch": watch,
}
WRITES = {
    "write": in_query("PUT", body=b"written"),
    "write new": in_query("PUT", more="&new=true", body=b"written"),
    "write at": in_query("PUT", more="&offset=0", body=b"written"),
    "remove": in_query("DELETE"),
    "remove all": in_query("DELETE", more="&recursive=true"),
    "mkdir": in_body(f"{FILES}/mkdir", b'{"path":PATH}'),
    "chmod": in_body(f"{FILES}/chmod", b'{"path":PATH,"mode":"0777"}'),
    "move from": in_body(f"{FILES}/move", b'{"from":PATH,"to":"/workspace/moved"}'),
    "move to": in_body(f"{FILES}/move", b'{"from":"/workspace/own","to":PATH}'),
}
TOOLS = {
    "tool write": in_body("/v1/tools/sandbox_write_file?session=SESSION",
                          b'{"file_path":PATH,"content":"written"}'),
    "tool edit": in_body("/v1/tools/sandbox_edit_file?session=SESSION",
                         b'{"file_path":PATH,"old_string":"o","new_string":"0"}'),
}
ALL = {**READS, **WRITES, **TOOLS}


def was_done(reply):
    """Whether a call of either kind did what it was asked for."""
    assert reply.status < 500, reply
    if reply.status >= 400:
        assert reply.error["code"], reply
        return False
    if reply.body[:1] == b"{" and b'"success"' in reply.body:
        return reply.json()["success"]
    return True
