"""The bus: every change of a session, in order, with ids; a reader that left misses nothing."""
import json
import threading

import support


def work(daemon, count=3):
    """A session that makes events; its id, after its end."""
    made = daemon.session()["id"]
    for number in range(count):
        daemon.exec(made, "sh", "-c", f"echo {number}")
    daemon.write(made, "/tmp/f", b"x")
    daemon.end(made)
    return made


def until_the_end(events, session):
    events.until("session.ended", lambda data: data["session_id"] == session)
    return events.seen


def of(session, seen):
    return [event for event in seen if event.data["session_id"] == session]


def keys(seen):
    return [(event.id, event.type, event.data["session_id"]) for event in seen]


def test_each_change_is_an_event(daemon):
    with daemon.events("/v1/events") as events:
        made = work(daemon)
        seen = of(made, until_the_end(events, made))
    kinds = [event.type for event in seen if event.type not in ("output", "file.changed")]
    assert kinds == ["session.created"] + ["exec.started", "exec.exited"] * 3 + ["session.ended"]
    assert "output" in [event.type for event in seen]
    assert "file.changed" in [event.type for event in seen]
    for event in seen:
        assert event.data["type"] == event.type and str(event.data["id"]) == event.id
        assert event.data["time"].endswith("Z")
    assert seen[-1].data["reason"] == "deleted"
    exited = next(event for event in seen if event.type == "exec.exited")
    assert exited.data["execution_id"] == f"{made}.1" and exited.data["exit_code"] == 0


def test_ids_grow(daemon):
    with daemon.events("/v1/events", last=0) as events:
        made = work(daemon, 1)
        numbers = [int(event.id) for event in until_the_end(events, made)]
    assert numbers == sorted(set(numbers))


def test_a_session_has_a_stream_of_its_own(daemon):
    other = daemon.session()["id"]
    made = daemon.session()["id"]
    with daemon.events(f"/v1/sessions/{made}/events") as events:
        daemon.exec(other, "true")
        daemon.exec(made, "true")
        daemon.end(made)
        seen = until_the_end(events, made)
    assert {event.data["session_id"] for event in seen} == {made}
    daemon.end(other)


def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(daemon):
    """One reads all the time; one leaves after every few events, while more are made."""
    whole = daemon.events("/v1/events")
    start = work(daemon, 1)
    first = until_the_end(whole, start)[-1]
    last, got, stop = first.id, [], threading.Event()
    made = []

    def produce():
        for _ in range(4):
            made.append(work(daemon))
        stop.set()
    producer = threading.Thread(target=produce)
    producer.start()
    turns = 0
    while not (stop.is_set() and got and got[-1].type == "session.ended"
               and got[-1].data["session_id"] == made[-1]):
        turns += 1
        with daemon.events("/v1/events", last=last) as part:
            for _ in range(turns % 5 + 1):
                event = part.next()
                got.append(event)
                last = event.id
                if event.type == "session.ended" and len(made) == 4 and \
                        event.data["session_id"] == made[-1]:
                    break
                if event.type == "session.ended" and stop.is_set():
                    break
    producer.join()
    until_the_end(whole, made[-1])
    whole.close()
    expected = whole.seen[whole.seen.index(first) + 1:]
    assert keys(got) == keys(expected)
    assert turns > 5 and "gap" not in [event.type for event in got]


def test_a_reader_that_comes_back_to_a_sessions_stream(daemon, session):
    with daemon.events(f"/v1/sessions/{session}/events") as events:
        daemon.exec(session, "true")
        last = events.until("exec.exited").id
    daemon.exec(session, "echo", "while away")
    with daemon.events(f"/v1/sessions/{session}/events", last=last) as events:
        started = events.until("exec.started")
        assert started.data["execution_id"] == f"{session}.2"
        assert [event.type for event in events.seen] == ["exec.started"]


def test_an_id_that_never_was(daemon, session):
    with daemon.events("/v1/events", last="9" * 17) as events:
        daemon.exec(session, "true")
        events.until("exec.exited", lambda data: data["session_id"] == session)
    for last in ("x", "-1", "1" * 40, "1.5"):
        daemon.refused("GET", "/v1/events", 400, "bad_input", headers={"Last-Event-ID": last})


def test_an_old_id_is_told_of_the_gap(daemon):
    """The bus keeps a bounded number of events; what is gone is said, not silently left out."""
    with daemon.events("/v1/events") as events:
        made = daemon.session()["id"]
        first = events.until("session.created", lambda data: data["session_id"] == made)
        daemon.end(made)
    for turn in range(1, 6001):
        daemon.end(daemon.session()["id"])
        if turn % 500 == 0:
            with daemon.events("/v1/events", last=first.id) as events:
                following = events.next()
            if following.type == "gap":
                return
            assert following.type == "session.ended" and following.data["session_id"] == made
    raise AssertionError("12000 events are kept?")


def test_many_readers(daemon):
    streams = [daemon.events("/v1/events") for _ in range(20)]
    made = work(daemon, 1)
    lists = [keys(of(made, until_the_end(stream, made))) for stream in streams]
    for stream in streams:
        stream.close()
    assert all(each == lists[0] for each in lists) and len(lists[0]) >= 4


def test_the_command_line_follows_them(daemon, session):
    process = support.start("events", "-f", "--json", env=daemon.env, room=daemon.room)
    try:
        for line in process.stdout:
            event = json.loads(line)
            if event["type"] == "exec.exited" and event["session_id"] == session:
                break
            if event["type"] == "session.created" and event["session_id"] == session:
                daemon.exec(session, "true")  # it shows what was, then what comes
    finally:
        process.terminate()
        process.communicate()
