"""POST /v1/sessions/{id}/codebox: error first, then the first picture, else the text."""
import base64

import pytest

import serve

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


@pytest.fixture(scope="module")
def daemon():
    with serve.Daemon() as running:
        yield running


@pytest.fixture
def box(daemon):
    session = daemon.session()["id"]
    yield lambda code, status=200, **more: daemon.post(
        f"/v1/sessions/{session}/codebox", {"code": code, **more}, status)
    daemon.end(session)


@pytest.mark.parametrize("code, kind, content", [
    ("print('a')\n1 + 1", "text", "a\n"),
    ("x = 20\nx + 1", "text", "21"),
    ("pass", "text", ""),
    (f"print('a')\ndisplay({{'image/png': '{PNG}'}}, raw=True)\n5", "image/png", PNG),
])
def test_one_thing_comes_back(box, code, kind, content):
    assert box(code) == {"type": kind, "content": content}


def test_variables_stay(box):
    assert box("x = 20") == {"type": "text", "content": ""}
    assert box("x") == {"type": "text", "content": "20"}


def test_an_error_comes_first_with_its_traceback(box):
    out = box(f"print('a')\ndisplay({{'image/png': '{PNG}'}}, raw=True)\n1 / 0")
    assert set(out) == {"type", "content"} and out["type"] == "error"
    assert "ZeroDivisionError: division by zero" in out["content"] and "line 3" in out["content"]


def test_code_that_does_not_end_is_an_error(box):
    out = box("while True: pass", timeout=0.5)
    assert out["type"] == "error" and ("KeyboardInterrupt" in out["content"] or "timed out" in out["content"]), out


def test_other_languages_too(box):
    assert box("echo hi", language="bash") == {"type": "text", "content": "hi\n"}


def test_a_missing_member_is_named(box):
    assert box("1", 400, codes="1")["error"]["code"] == "unknown_parameter"
