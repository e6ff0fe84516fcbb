"""A terminal over a WebSocket, as a page would have one: bytes, sizes, the end, and coming back."""
import re

import pytest

import serve
import support
import wsclient


def open_pty(daemon, session, **query):
    words = "&".join(f"{name}={serve.quoted(str(value))}" for name, value in query.items())
    ws = wsclient.connect(daemon, f"/v1/sessions/{session}/pty/ws?{words}")
    started = ws.receive()
    assert started["type"] == "started", started
    return ws, started


def read_until(ws, pattern, got=b""):
    while not re.search(pattern, got):
        piece = ws.receive()
        assert isinstance(piece, bytes), piece
        got += piece
    return got


def the_end(ws):
    """What else it wrote, and how it ended."""
    got = b""
    while isinstance(piece := ws.receive(), bytes):
        got += piece
    assert piece["type"] == "exit", piece
    with pytest.raises(wsclient.Closed) as closed:
        ws.receive()
    assert closed.value.code == 1000
    ws.vanish()
    return got, piece


def test_a_shell(daemon, session):
    ws, started = open_pty(daemon, session, rows=30, columns=100)
    assert started["offset"] == 0
    ws.send(b"stty size; tty; echo $TERM; echo a$((1+1))b\n")
    got = read_until(ws, rb"a2b")
    assert b"30 100" in got and b"/dev/pts/" in got and b"xterm-256color" in got
    ws.send({"type": "resize", "rows": 41, "columns": 123})
    ws.send(b"stty size\n")
    read_until(ws, rb"41 123")
    ws.send(b"exit 5\n")
    _, end = the_end(ws)
    assert end["exit_code"] == 5 and end["execution_id"] == started["execution_id"]


def test_interrupt_by_a_byte(daemon, session):
    # Short ones: a shell that has just begun to wait for a program may have missed the signal.
    script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    ws, _ = open_pty(daemon, session, command=script)
    read_until(ws, rb"ready")
    ws.send(b"\x03")
    got, end = the_end(ws)
    assert b"caught" in got and end["exit_code"] == 7


def test_signal(daemon, session):
    ws, _ = open_pty(daemon, session, command="echo ready; exec sleep 1000")
    read_until(ws, rb"ready")
    ws.send({"type": "signal", "signal": "KILL"})
    _, end = the_end(ws)
    assert end["signal"] == 9


def test_lost_and_back_by_execution_and_offset(daemon, session):
    script = "stty -echo; echo ready; while read line; do echo got $line; done"
    ws, started = open_pty(daemon, session, command=script)
    got = read_until(ws, rb"ready\r\n")
    execution, at = started["execution_id"], len(got)
    for number in range(5):
        ws.vanish()
        ws, again = open_pty(daemon, session, execution=execution, offset=at)
        assert again["offset"] == at and again["execution_id"] == execution
        ws.send(b"%d\n" % number)
        piece = read_until(ws, rb"\n")
        assert piece == b"got %d\r\n" % number
        at += len(piece)
    ws.vanish()
    ws, _ = open_pty(daemon, session, execution=execution, offset=0)
    everything = read_until(ws, rb"got 4\r\n")
    assert len(everything) == at
    ws.send(b"\x04")
    _, end = the_end(ws)
    assert end["exit_code"] == 0


def test_hanging_up_ends_it(daemon, session):
    ws, started = open_pty(daemon, session, command="echo ready; cat")
    read_until(ws, rb"ready")
    ws.close(1000)
    where = f"/v1/sessions/{session}/processes/{started['execution_id']}"
    support.wait_until(lambda: daemon.get(where)["state"] == "exited", "the shell has ended")


def test_output_of_any_bytes(daemon, session):
    ws, _ = open_pty(daemon, session, command="stty raw; head -c 3000000 /dev/urandom | tee /tmp/r")
    got, end = the_end(ws)
    assert end["exit_code"] == 0
    assert got == daemon.read(session, "/tmp/r")


def test_a_paste_that_is_larger_than_the_terminal_takes(daemon, session):
    ws, _ = open_pty(daemon, session, command="stty raw -echo; echo ready; head -c 2000000 | md5sum")
    read_until(ws, rb"ready")
    for _ in range(200):
        ws.send(b"p" * 10000)
    got, end = the_end(ws)
    assert b"  -" in got and end["exit_code"] == 0


@pytest.mark.parametrize("message, field", [
    ("x", None), ("[]", None), ('{"type":"stdin"}', None), ('{"type":"resize","rows":1}', "columns"),
    ('{"type":"resize","rows":0,"columns":1}', "rows"), ('{"type":"signal","signal":"X"}', None),
])
def test_bad_words(daemon, session, message, field):
    ws, _ = open_pty(daemon, session, command="cat")
    ws.send(message)
    answer = ws.receive()
    assert answer["type"] == "error" and answer["error"].get("field") == field
    ws.close()


def test_bad_addresses(daemon, session):
    plain = daemon.post(f"/v1/sessions/{session}/exec", {"argv": ["sleep", "9"], "background": True},
                        202)["execution_id"]
    for query, status in (("rows=0", 400), ("rows=x", 400), ("wat=1", 400), ("execution=77", 404),
                          (f"execution={plain}", 409)):
        with pytest.raises(wsclient.Refused) as refused:
            wsclient.connect(daemon, f"/v1/sessions/{session}/pty/ws?{query}")
        assert refused.value.status == status
