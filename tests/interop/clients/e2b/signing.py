"""signing.py - signed addresses of files, and the token of a sandbox."""
import urllib.error
import urllib.request
import uuid

import pytest


def fetch(url, data=None, headers=None):
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def form(content):
    mark = uuid.uuid4().hex
    body = (f"--{mark}\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n{content}\r\n--{mark}--\r\n").encode()
    return {"data": body, "headers": {"Content-Type": f"multipart/form-data; boundary={mark}"}}


def test_a_signed_address_opens_its_file_only(sandbox):
    sandbox.files.write("signed.txt", "hello")
    url = sandbox.download_url("signed.txt", user="user")
    assert fetch(url) == (200, "hello")
    assert fetch(url.replace("signed.txt", "other.txt"))[0] == 401


def test_an_address_without_a_good_signature_is_refused(sandbox):
    url = sandbox.download_url("signed.txt", user="user")
    status, text = fetch(url.split("&signature=")[0])
    assert status == 401 and "missing signature query parameter" in text
    status, text = fetch(url[:-3] + "abc")
    assert status == 401 and "invalid signature" in text


def test_an_address_expires(sandbox):
    sandbox.files.write("signed.txt", "hello")
    assert fetch(sandbox.download_url("signed.txt", user="user", use_signature_expiration=120))[0] == 200
    status, text = fetch(sandbox.download_url("signed.txt", user="user", use_signature_expiration=-120))
    assert status == 401 and "signature is already expired" in text


def test_a_signed_upload(sandbox):
    url = sandbox.upload_url("uploaded.txt", user="user")
    status, text = fetch(url, **form("from outside"))
    assert status == 200 and "/home/user/uploaded.txt" in text
    assert sandbox.files.read("uploaded.txt") == "from outside"
    assert fetch(sandbox.download_url("uploaded.txt", user="user"), **form("x"))[0] == 401, "for reading only"


def test_a_wrong_token_is_refused(sandbox):
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983"}
    base = sandbox.download_url("signed.txt").split("/files")[0]
    assert fetch(f"{base}/files?path=signed.txt", headers={**headers, "X-Access-Token": "wrong"})[0] == 401
    assert fetch(f"{base}/process.Process/List", data=b"{}", headers={**headers, "Content-Type": "application/json"})[0] == 401
