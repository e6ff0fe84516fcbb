"""POST /v1/chat and `bailey ask`: a session that answers, with a scripted model server."""
import base64
import json
import os
import signal

import pytest

import install
import model_server
import serve
import support
import wheels
from model_server import code, text

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nbytes").decode()


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        yield running


@pytest.fixture(scope="module")
def daemon(model):
    with serve.Daemon({"BAILEY_UPSTREAM_URL": model.url, "BAILEY_UPSTREAM_KEY": "k"}) as running:
        # Its process `upstream` is started by the first message and stays.
        running.end(chat(running, model.script("first", [text("ok")]))["session"])
        yield running


@pytest.fixture(autouse=True)
def nothing_stays(request):
    yield
    if "daemon" in request.fixturenames:
        running = request.getfixturevalue("daemon")
        for one in running.get("/v1/sessions")["sessions"]:
            running.end(one["id"])


def chat(daemon, name, message="go", **members):
    return daemon.post("/v1/chat", {"message": message, "model": name, **members})


def last_user(model, name):
    """The newest message of the person that the model server was sent."""
    return [m for m in model.requests(name)[-1]["body"]["messages"] if m["role"] == "user"][-1]["content"]


def test_an_answer_has_text_code_files_and_a_session(daemon, model):
    name = model.script("whole", [
        code("import csv\nrows = list(csv.reader(open('/mnt/data/sales.csv')))\nprint(len(rows))\n"
             "open('/mnt/data/plot.svg', 'w').write('<svg/>')\nopen('/tmp/output/t.csv', 'w').write('a')"),
        text("Two rows. ", "![plot](sandbox:/mnt/data/plot.svg)", "See [the plot](sandbox:/mnt/", "data/plot.svg)",
             " or [docs](https://example.org).")])
    reply = chat(daemon, name, "How many?", files=[{"name": "sales.csv", "content": "a,b\n1,2\n"}])
    assert reply["content"] == "Two rows. See the plot or [docs](https://example.org)."
    assert len(reply["code_log"]) == 1 and reply["code_log"][0]["code"].startswith("import csv")
    assert reply["code_log"][0]["output"] == {"type": "text", "content": "2\n1"} or \
        reply["code_log"][0]["output"]["content"].startswith("2\n"), reply
    files = {f["name"]: f for f in reply["files"]}
    assert set(files) == {"plot.svg", "t.csv"}, "not the file of the person, and nothing else"
    assert files["plot.svg"]["mime"] == "image/svg+xml" and files["plot.svg"]["bytes"] == 6
    assert daemon.asked("GET", files["plot.svg"]["url"]).body == b"<svg/>"
    assert reply["session"].startswith("s_") and "note" not in reply
    assert "/mnt/data/sales.csv" in last_user(model, name)


def test_a_session_remembers_words_variables_and_files(daemon, model):
    name = model.script("memory", [code("x = 41"), text("noted")])
    first = chat(daemon, name, "Remember 41")
    again = model.script("memory2", [code("print(x + 1)"), text("42 it is")])
    second = chat(daemon, again, "And one more?", session=first["session"])
    assert second["code_log"][0]["output"] == {"type": "text", "content": "42\n"}
    assert second["session"] == first["session"] and second["files"] == []
    said = model.requests(again)[0]["body"]["messages"]
    assert [m["role"] for m in said] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert said[1]["content"] == "Remember 41" and said[4]["content"] == "noted"


def test_what_was_said_survives_a_killed_broker(model):
    with serve.Daemon({"BAILEY_UPSTREAM_URL": model.url}) as own:
        first = chat(own, model.script("killed", [text("hello")]), "Hi")
        broker = json.loads(own.bailey("daemon", "status", "--json").stdout)["broker_pid"]
        os.kill(broker, signal.SIGKILL)
        support.wait_until(lambda: up_again(own, broker), "another broker is there")
        again = model.script("killed2", [text("still here")])
        chat(own, again, "Still?", session=first["session"])
        assert [m["content"] for m in model.requests(again)[0]["body"]["messages"][1:]] == ["Hi", "hello", "Still?"]


def up_again(daemon, before):
    done = daemon.bailey("daemon", "status", "--json")
    return done.status == 0 and json.loads(done.stdout)["broker_pid"] != before


def test_outputs_are_an_error_a_picture_or_text(daemon, model):
    name = model.script("outputs", [code("1 / 0"), code(f"display({{'image/png': '{PNG}'}}, raw=True)"),
                                    code("6 * 7"), text("done")])
    outputs = [step["output"] for step in chat(daemon, name)["code_log"]]
    assert [o["type"] for o in outputs] == ["error", "image/png", "text"], outputs
    assert "ZeroDivisionError" in outputs[0]["content"] and outputs[2]["content"].strip() == "42"
    assert outputs[1]["content"] == PNG


def test_only_what_the_code_changed_comes_back(daemon, model):
    first = chat(daemon, model.script("one", [code("open('/mnt/data/a', 'w').write('1')\nopen('/mnt/data/b', 'w').write('1')"),
                                              text("ok")]))
    assert sorted(f["name"] for f in first["files"]) == ["a", "b"]
    daemon.python(first["session"], "open('/mnt/data/of another', 'w')")
    second = chat(daemon, model.script("two", [code("open('/mnt/data/b', 'a').write('2')"), text("ok")]),
                  session=first["session"])
    assert [f["name"] for f in second["files"]] == ["b"]
    assert second["files"][0]["id"] == {f["name"]: f["id"] for f in first["files"]}["b"]


def test_events_come_as_it_happens(daemon, model):
    name = model.script("stream", [text("Let me see.")[:-2] + code("print('x')")[0:],
                                   [*text("It is x.")[:2], {"wait": "rest"}, *text(" Bye.")[1:]]])
    with daemon.events("/v1/chat", {"message": "go", "model": name}, method="POST") as events:
        assert events.until("code").data == {"code": "print('x')"}
        assert events.until("output").data == {"type": "text", "content": "x\n"}
        assert "It is x" in events.until("text").data["delta"]  # while the model server waits
        model.go("rest")
        done = events.until("done").data
    assert done["content"].endswith("It is x. Bye.") and len(done["code_log"]) == 1


def test_verbose_shows_all_messages(daemon, model):
    reply = chat(daemon, model.script("verbose", [code("1"), text("ok")]), verbose=True)
    assert [m["role"] for m in reply["log"]] == ["user", "assistant", "tool"]
    assert reply["usage"]["input_tokens"] == 20


@pytest.mark.parametrize("members, code_", [
    ({"files": [{"name": "x"}]}, "bad_input"),
    ({"files": [{"name": "x", "content_base64": "??"}]}, "bad_input"),
    ({"files": ["file-0"]}, "file_not_found"),
    ({"session": "cntr_0"}, "container_not_found"),
    ({"session": "none"}, "session_not_found"),
    ({"message": ""}, "bad_input"),
])
def test_bad_requests_say_what_is_wrong(daemon, model, members, code_):
    body = {"message": "go", "model": model.script("never", [text("no")]), **members}
    status = 404 if code_.endswith("not_found") else 400
    daemon.refused("POST", "/v1/chat", status, code_, body=body)


def test_troubles_of_the_model_server_are_told_in_plain_words(daemon, model):
    name = model.script("key", [[{"status": 401, "body": '{"error":{"message":"bad key"}}'}]])
    why = daemon.refused("POST", "/v1/chat", 502, "model_server_error", body={"message": "x", "model": name})
    assert "BAILEY_UPSTREAM_KEY" in why["message"]
    cut = model.script("cut", [[*text("half")[:2], {"cut": True}]])
    daemon.refused("POST", "/v1/chat", 502, "model_server_error", body={"message": "x", "model": cut})
    with daemon.events("/v1/chat", {"message": "x", "model": cut}, method="POST") as events:
        assert events.until("error").data["code"] == "model_server_error"


def test_two_messages_at_once_in_a_session_are_refused(daemon, model):
    session = daemon.session()["id"]
    name = model.script("slow", [[*text("a")[:2], {"wait": "slow"}, *text("b")[1:]]])
    with daemon.events("/v1/chat", {"message": "1", "model": name, "session": session}, method="POST") as events:
        events.until("text")
        daemon.refused("POST", "/v1/chat", 503, "busy", body={"message": "2", "model": name, "session": session})
        model.go("slow")
        events.until("done")


def test_a_client_that_leaves_stops_the_code(daemon, model):
    session = daemon.session()["id"]
    name = model.script("long", [code("import time\nopen('/tmp/began', 'w')\ntime.sleep(600)"), text("never")])
    with daemon.events("/v1/chat", {"message": "1", "model": name, "session": session}, method="POST") as events:
        events.until("code")
        support.wait_until(lambda: daemon.python(session, "import os; print(os.path.exists('/tmp/began'))")
                           ["stdout"] == "True\n", "the code runs")
    cells = lambda: [p for p in daemon.get(f"/v1/sessions/{session}/processes")["processes"]
                     if p["state"] == "running"]
    support.wait_until(lambda: not cells(), "the code was interrupted")


def test_without_a_model_server_one_sentence_says_how():
    with serve.Daemon() as own:
        why = own.refused("POST", "/v1/chat", 503, "no_model_server", body={"message": "x"})
        assert "BAILEY_UPSTREAM_URL" in why["message"]
        done = own.bailey("ask", "hello")
        assert done.status != 0 and done.stdout == "" and "BAILEY_UPSTREAM_URL" in done.stderr
        assert own.get("/v1/sessions")["sessions"] == []


def test_a_missing_package_is_installed_and_the_model_is_told_once(model, tmp_path):
    shelf = tmp_path / "wheels"
    wheels.folder(shelf, install.CASTLE, install.MOAT)
    name = model.script("missing", [code("import castle\nprint('here')"), text("ok")])
    with serve.Daemon({"BAILEY_UPSTREAM_URL": model.url, **install.settings(shelf)}) as own:
        reply = chat(own, name, verbose=True)
        assert reply["code_log"][0]["output"]["content"].endswith("here\n"), reply
        told = [m["content"] for m in reply["log"] if m["role"] == "tool"]
        assert len(told) == 1 and told[0].count("installed castle") == 1, told
        assert "ran the code again" in told[0]
        own.end(reply["session"])


# --- bailey ask ------------------------------------------------------------------------------------


def test_ask_streams_the_answer_shows_code_and_saves_files(model):
    asked = model.script("asked", [code("print(open('/mnt/data/my sales.csv').read())\n"
                                        "open('/mnt/data/total.txt', 'w').write('3')"), text("The total is 3.")])
    with serve.Daemon({"BAILEY_UPSTREAM_URL": model.url, "BAILEY_UPSTREAM_MODEL": asked}) as own:
        (own.room.work / "my sales.csv").write_text("a,b\n1,2\n")
        done = own.bailey("ask", "Sum it", "--file", "my sales.csv", "--out", "results")
        assert done.status == 0 and done.stdout == "The total is 3.\n", done
        assert ">>> print(open(" in done.stderr and "... open(" in done.stderr and "    a,b" in done.stderr
        assert "saved results/total.txt" in done.stderr
        assert (own.room.work / "results" / "total.txt").read_text() == "3"
        session = [s["id"] for s in own.get("/v1/sessions")["sessions"]]
        assert len(session) == 1 and session[0] in done.stderr
        assert own.get("/v1/files")["data"] == [], "the upload is not kept beside the session's copy"
        again = own.bailey("ask", "--json", "--session", session[0], "And now?")
        assert json.loads(again.stdout)["session"] == session[0]
        quiet = own.bailey("ask", "-q", "-s", session[0], "Once more")
        assert quiet.stdout == "The total is 3.\n" and quiet.stderr == ""
        bad = own.bailey("ask", "x", "--file", "missing.csv")
        assert bad.status == 125 and "missing.csv" in bad.stderr
        own.end(session[0])


def test_ctrl_c_stops_the_answer_and_its_code(model):
    endless = model.script("endless", [code("import time\ntime.sleep(600)"), text("never")])
    with serve.Daemon({"BAILEY_UPSTREAM_URL": model.url, "BAILEY_UPSTREAM_MODEL": endless}) as own:
        process = support.start("ask", "wait", env=own.env, room=own.room, user=own.user)
        running = lambda: [p for s in own.get("/v1/sessions")["sessions"]
                           for p in own.get(f"/v1/sessions/{s['id']}/processes")["processes"]
                           if p["state"] == "running"]
        support.wait_until(running, "the code runs")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=support.PATIENCE)
        assert process.returncode == 130 and b"interrupted" in err, (process.returncode, out, err)
        support.wait_until(lambda: not running(), "the code was interrupted")
        for one in own.get("/v1/sessions")["sessions"]:
            own.end(one["id"])
