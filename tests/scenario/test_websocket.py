"""The WebSocket door: commands, cells, events and files over one connection; who is lost comes back
and misses nothing; who breaks the protocol is told so; who is slow holds only its own guest."""
import base64
import json
import struct

import pytest

import serve
import support
import wsclient
from wsclient import BINARY, CLOSE, CONTINUED, FIN, PING, PONG, TEXT


@pytest.fixture
def ws(daemon, session):
    with wsclient.connect(daemon, f"/v1/sessions/{session}/ws") as opened:
        yield opened


def output(events, name="stdout"):
    return b"".join(serve.decoded(event["data"]) for event in events if event.get("event") == name)


# ---- commands and cells

def test_a_command(ws, session):
    reply = ws.ask("exec", argv=["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert reply["execution_id"] == f"{session}.1"
    seen = ws.until("exit", reply["subscription"])
    assert seen[0]["event"] == "started"
    assert output(seen) == b"out\n" and output(seen, "stderr") == b"err\n"
    assert seen[-1]["data"]["exit_code"] == 3
    assert ws.event(reply["subscription"]) == {"type": "end", "reason": "over",
                                               "subscription": reply["subscription"]}


def test_a_cell_keeps_its_variables(ws):
    first = ws.ask("cell", code="x = 41")
    ws.until("exit", first["subscription"])
    second = ws.ask("cell", code="x + 1")
    seen = ws.until("exit", second["subscription"])
    result = next(event for event in seen if event["event"] == "result")
    assert "42" in json.dumps(result["data"])


@pytest.mark.parametrize("size", [1000, 1_000_000, 4_000_000])
def test_messages_keep_their_order(ws, size):
    """A long one is read by a thread, and those behind it wait."""
    ws.start("cell", code=f"len('{'x' * size}')")
    ws.start("ping")
    ws.start("nonsense")
    seen = []
    while len(seen) < 3:
        message = ws.receive()
        if message["type"] in ("reply", "error"):
            seen.append((message["id"], message["type"]))
    assert seen == [(1, "reply"), (2, "reply"), (3, "error")]


def test_a_client_that_leaves_behind_a_long_message(daemon, session):
    with wsclient.connect(daemon, f"/v1/sessions/{session}/ws") as gone:
        gone.start("cell", code="#" + "x" * 4_000_000)
        gone.vanish()
    with wsclient.connect(daemon, f"/v1/sessions/{session}/ws") as ws:
        assert ws.ask("ping")["type"] == "reply"


def test_two_commands_at_once(ws):
    one = ws.ask("exec", argv=["sh", "-c", "read line; echo one $line"], stdin=True)
    two = ws.ask("exec", argv=["sh", "-c", "read line; echo two $line"], stdin=True)
    ws.ask("stdin", execution=two["execution_id"], data="b\n")
    assert output(ws.until("exit", two["subscription"])) == b"two b\n"
    ws.ask("stdin", execution=one["execution_id"], data=base64.b64encode(b"a\n").decode(),
           encoding="base64", end=True)
    assert output(ws.until("exit", one["subscription"])) == b"one a\n"


def test_signal(ws):
    reply = ws.ask("exec", argv=["sleep", "1000"])
    ws.until("started", reply["subscription"])
    ws.ask("signal", execution=reply["execution_id"], signal="TERM")
    assert ws.until("exit", reply["subscription"])[-1]["data"]["exit_code"] == 143


def test_interrupt(ws):
    first = ws.ask("cell", code="kept = 7")
    ws.until("exit", first["subscription"])
    reply = ws.ask("cell", code="print('on', flush=True)\nwhile True: pass")
    ws.until("stdout", reply["subscription"])
    ws.ask("interrupt")
    assert ws.until("exit", reply["subscription"])[-1]["data"]["exit_code"] != 0
    again = ws.ask("cell", code="print(kept)")
    assert output(ws.until("exit", again["subscription"])) == b"7\n"


def test_resize(ws):
    reply = ws.ask("exec", argv=["sh", "-c", "read line; stty size"], stdin=True,
                   pty={"rows": 10, "columns": 20})
    ws.until("started", reply["subscription"])
    ws.ask("resize", execution=reply["execution_id"], rows=33, columns=77)
    ws.ask("stdin", execution=reply["execution_id"], data="\n")
    assert b"33 77" in output(ws.until("exit", reply["subscription"]))


def test_input_that_nobody_reads_waits_and_others_are_heard(ws):
    reply = ws.ask("exec", argv=["sleep", "1000"], stdin=True)
    number = ws.start("stdin", execution=reply["execution_id"], data="x" * 5_000_000)
    busy = ws.refused("stdin", execution=reply["execution_id"], data="y")
    assert busy["code"] == "busy"
    ws.ask("ping")
    assert number not in ws.replies
    ws.ask("signal", execution=reply["execution_id"], signal="KILL")
    # It is answered now: an error if the end was told first; the warden drops what no program reads any more.
    assert ws.wait(number)["type"] in ("error", "reply")


# ---- events

def test_events_of_a_session(ws, daemon, session):
    told = ws.ask("subscribe", what="events")["subscription"]
    daemon.exec(session, "true")
    seen = ws.until("exec.exited", told)
    assert [event["event"] for event in seen if event["event"] != "output"] == [
        "exec.started", "exec.exited"]
    for event in seen:
        assert event["data"]["session_id"] == session and event["id"] == str(event["data"]["id"])


def test_events_of_all_sessions(daemon):
    with wsclient.connect(daemon, "/v1/ws") as ws:
        told = ws.ask("subscribe", what="events")["subscription"]
        one, two = daemon.session()["id"], daemon.session()["id"]
        reply = ws.ask("exec", session=one, argv=["true"])
        ws.until("exit", reply["subscription"])
        ws.ask("subscribe", what="execution", execution=reply["execution_id"])
        daemon.end(one)
        daemon.end(two)
        ended = {ws.until("session.ended", told)[-1]["data"]["session_id"] for _ in range(2)}
        assert ended == {one, two}
        assert ws.refused("exec", argv=["true"])["field"] == "session"


def test_a_picture_is_announced_with_its_address(ws, daemon, session):
    told = ws.ask("subscribe", what="events")["subscription"]
    png = base64.b64encode(
        bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c"
                      "4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082")).decode()
    reply = ws.ask("exec", argv=["sh", "-c", f"echo {png} | base64 -d > /tmp/output/p.png"])
    ws.until("exit", reply["subscription"])
    picture = ws.until("visualization", told)[-1]["data"]
    assert picture["mime"] == "image/png"
    fetched = daemon.call("GET", picture["url"])
    assert fetched.status == 200 and fetched.body.startswith(b"\x89PNG")


def test_files(ws, daemon, session):
    told = ws.ask("subscribe", what="files", path="/workspace", recursive=True)
    assert told["path"] == "/workspace"
    daemon.write(session, "/workspace/here.txt", b"x")
    seen = ws.until("change", told["subscription"],
                    lambda data: data["path"] == "/workspace/here.txt")
    assert seen[-1]["data"]["type"] == "file"
    assert ws.refused("subscribe", what="files", path="/etc")["code"] == "path_invalid"
    assert ws.refused("subscribe", what="files", path="/workspace/none")["code"] == "path_not_found"
    ws.ask("unsubscribe", subscription=told["subscription"])
    assert ws.refused("unsubscribe", subscription=told["subscription"])["field"] == "subscription"


# ---- lost and back (docs/security.md, attacks 63)

def test_a_lost_client_gets_exactly_what_it_missed(daemon, session):
    """Leaves in the middle, comes back with its last id, again and again: not a byte twice, none lost."""
    path = f"/v1/sessions/{session}/ws"
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo done >&2"
    ws = wsclient.connect(daemon, path)
    reply = ws.ask("exec", argv=["sh", "-c", script])
    execution, subscription = reply["execution_id"], reply["subscription"]
    got, last, rounds, over = b"", None, 0, False
    while not over:
        for _ in range(3):
            event = ws.event(subscription)
            assert event["type"] == "event", event
            if event["event"] == "stdout":
                assert event["data"]["offset"] == len(got)
                got += serve.decoded(event["data"])
            last, over = event["id"], event["event"] == "exit"
            if over:
                break
        ws.vanish()
        rounds += 1
        ws = wsclient.connect(daemon, path)
        if not over:
            subscription = ws.ask("subscribe", what="execution", execution=execution,
                                  last_id=last)["subscription"]
    ws.close()
    assert rounds > 3
    assert got == b"".join(b"line %d\n" % i for i in range(20000))


def test_events_after_the_last_id(daemon):
    made = daemon.session()["id"]
    with wsclient.connect(daemon, f"/v1/sessions/{made}/ws") as ws:
        all_of = ws.ask("subscribe", what="events", last_id=0)["subscription"]
        for _ in range(3):
            daemon.exec(made, "true")
        daemon.end(made)
        seen = [event["id"] for event in ws.until("session.ended", all_of)]
    with wsclient.connect(daemon, "/v1/ws") as ws:
        for at in (0, len(seen) // 2, len(seen) - 1):
            told = ws.ask("subscribe", what="events", session=made, last_id=seen[at])["subscription"]
            again = []
            while (event := ws.event(told))["type"] == "event":
                again.append(event["id"])
            assert again == seen[at + 1:]


def test_goodbye_ends_what_it_started_and_loss_does_not(daemon, session):
    path = f"/v1/sessions/{session}/ws"

    def start(ws):
        reply = ws.ask("exec", argv=["sleep", "1000"])
        ws.until("started", reply["subscription"])
        return reply["execution_id"]
    lost = wsclient.connect(daemon, path)
    kept = start(lost)
    lost.vanish()
    with wsclient.connect(daemon, path) as ws:
        gone = start(ws)

    def state(execution):
        return daemon.get(f"/v1/sessions/{session}/processes/{execution}")["state"]
    support.wait_until(lambda: state(gone) == "exited", "what it started has ended")
    assert state(kept) == "running"


# ---- slow readers

def test_a_slow_reader_holds_only_its_own_guest(daemon, session):
    flood = ["sh", "-c", "trap 'touch heard' USR1; (trap '' USR1; while :; do echo "
             "0123456789012345678901234567890123456789; done) & while :; do sleep 0.1; done"]
    path = f"/v1/sessions/{session}/ws"
    slow = wsclient.connect(daemon, path)
    held = slow.ask("exec", argv=flood)["execution_id"]
    where = f"/v1/sessions/{session}/processes/{held}"

    def written():
        return daemon.get(where)["stdout_bytes"]
    before = [-1]

    def stands_still():
        now = written()
        same, before[0] = now == before[0] and now > 0, now
        return same
    support.wait_until(stands_still, "the guest of the slow reader waits", 30.0)
    with wsclient.connect(daemon, path) as quick:
        reply = quick.ask("exec", argv=["sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x"])
        assert len(output(quick.until("exit", reply["subscription"]))) == 5000000
    # It is heard although it does not listen.
    slow.send({"type": "signal", "id": 99, "execution": held, "signal": "USR1"})
    support.wait_until(lambda: daemon.call("GET", f"/v1/sessions/{session}/files/stat", query={
        "path": "/workspace/heard"}).status == 200, "the signal was heard")
    assert slow.wait(99)["type"] == "reply"
    slow.close()


def test_who_asks_and_does_not_listen_is_not_read(daemon, session):
    ws = wsclient.connect(daemon, f"/v1/sessions/{session}/ws")
    ws.sock.settimeout(2)
    message = json.dumps({"type": "ping", "id": "x" * 60}).encode()
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 64_000_000:
            ws.send_frame(FIN | TEXT, message)
            sent += len(message)
    assert sent < 64_000_000
    ws.vanish()
    assert daemon.exec(session, "true")["exit_code"] == 0


# ---- bad frames and bad words

def frame(first, data=b"", **rest):
    return lambda ws: ws.send_frame(first, data, **rest)


@pytest.mark.parametrize("code, say", [
    (1002, frame(FIN | TEXT, b"{}", masked=False)),
    (1002, frame(FIN | TEXT | 0x40, b"{}")),
    (1002, frame(FIN | 3, b"x")),
    (1002, frame(FIN | CONTINUED, b"x")),
    (1005, frame(PING, b"x")),
    (1005, frame(FIN | PING, b"x" * 126)),
    (1002, frame(FIN | CLOSE, struct.pack(">H", 1005))),
    (1003, frame(FIN | BINARY, b"x")),
    (1007, frame(FIN | TEXT, b"\xff")),
    (1009, frame(FIN | TEXT, b"x", claim=1 << 40)),
])
def test_bad_frames(daemon, session, code, say):
    ws = wsclient.connect(daemon, f"/v1/sessions/{session}/ws")
    say(ws)
    with pytest.raises(wsclient.Closed) as closed:
        ws.receive()
    assert closed.value.code == code
    ws.vanish()


def test_fragments_with_pings_between(ws):
    ws.send_frame(TEXT, b'{"type":"pi')
    ws.send_frame(FIN | PING, b"hello")
    ws.send_frame(FIN | CONTINUED, b'ng","id":"a"}')
    assert ws.frame() == (FIN | PONG, b"hello")
    assert ws.receive() == {"type": "reply", "id": "a"}


@pytest.mark.parametrize("text, code, field", [
    ("", "bad_json", None),
    ("{", "bad_json", None),
    ("[" * 1000, "bad_json", None),
    ("[]", "bad_input", None),
    ("{}", "bad_input", "type"),
    ('{"type":"subscrib"}', "bad_input", "type"),
    ('{"type":"subscribe","what":"all"}', "bad_input", "what"),
    ('{"type":"subscribe","what":"events","last_id":"x"}', "bad_input", "last_id"),
    ('{"type":"subscribe","what":"execution"}', "bad_input", "execution"),
    ('{"type":"subscribe","what":"execution","execution":77}', "execution_not_found", None),
    ('{"type":"exec","argv":[]}', "bad_input", "argv"),
    ('{"type":"exec","argv":[""]}', "bad_input", "argv[0]"),
    ('{"type":"exec","argv":["a"],"wat":1}', "unknown_parameter", "wat"),
    ('{"type":"cell","code":" "}', "bad_input", "code"),
    ('{"type":"signal","execution":1,"signal":"NONE"}', "bad_input", "signal"),
    ('{"type":"ping","id":[1]}', "bad_input", "id"),
    ('{"type":"ping","session":7}', "bad_input", "session"),
    ('{"type":"exec","argv":["true"],"session":"s_nobody"}', "session_not_found", None),
])
def test_bad_words(ws, text, code, field):
    ws.send(text)
    answer = ws.receive()
    assert answer["type"] == "error" and answer["error"]["code"] == code
    assert answer["error"].get("field") == field
    ws.ask("ping")  # it goes on


def test_too_many_subscriptions(ws):
    for _ in range(64):
        ws.ask("subscribe", what="events")
    assert ws.refused("subscribe", what="events")["code"] == "busy"


def test_not_a_websocket(daemon, session):
    for path in ("/v1/ws", f"/v1/sessions/{session}/ws", f"/v1/sessions/{session}/pty/ws"):
        reply = daemon.call("GET", path)
        assert reply.status == 426 and reply.error["code"] == "upgrade_required"
        assert reply.headers["Sec-WebSocket-Version"] == "13"
        with pytest.raises(wsclient.Refused) as refused:
            wsclient.connect(daemon, path, headers={"Sec-WebSocket-Version": "8"})
        assert refused.value.status == 426
        with pytest.raises(wsclient.Refused) as refused:
            wsclient.connect(daemon, path, headers={"Sec-WebSocket-Key": "short"})
        assert refused.value.status == 400
    with pytest.raises(wsclient.Refused) as refused:
        wsclient.connect(daemon, "/v1/sessions/s_nobody/ws")
    assert refused.value.status == 404


def test_the_end_of_the_daemon_is_said():
    with serve.Daemon() as running:
        ws = wsclient.connect(running, "/v1/ws")
        ws.ask("ping")
        running.bailey("daemon", "stop", "--force")
        with pytest.raises(wsclient.Closed) as closed:
            ws.receive()
        assert closed.value.code == 1001
        ws.vanish()
