"""`bailey mcp` by hand: lines in, lines out. What real clients never send, and what happens when a
broker goes away, the input ends or the parent is gone."""
import json
import os
import select
import signal
import subprocess
import sys
import time

import pytest
import support
import wheels


class Front:
    """A `bailey mcp` on pipes."""

    def __init__(self, place, *options):
        self.process = subprocess.Popen([support.BAILEY, "mcp", *options], env=place.env,
                                        cwd=place.room.work, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.buffer, self.next_id = b"", 0

    def send(self, message):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        return self.next_id

    def exec(self, *argv, **more):
        return self.ask("tools/call", name="sandbox_exec", arguments={"command": argv, **more})

    def hear(self, timeout=support.PATIENCE):
        deadline = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = max(0, deadline - time.monotonic())
            assert select.select([self.process.stdout], [], [], left)[0], "no answer"
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            assert piece, f"it left: {self.process.stderr.read()}"
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def text(self, id_):
        """The text of the answer to a call."""
        answer = self.hear()
        assert answer["id"] == id_, answer
        return answer["result"]["content"][0]["text"]

    def end(self):
        """End of input; everything that still came."""
        out, err = self.process.communicate(timeout=support.PATIENCE)
        return out, err


@pytest.fixture
def front(place):
    made = Front(place)
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.communicate()


def test_it_says_nothing_by_itself(place):
    front = Front(place)
    assert front.end() == (b"", b"")
    assert front.process.returncode == 0
    assert not place.socket.exists(), "a daemon was started for nothing"


def test_hostile_lines_are_answered_and_survived(front):
    front.send(b"{nonsense")
    assert front.hear()["error"]["code"] == -32700
    front.send(b"")
    front.send(b'{"jsonrpc":"2.0","id":"x","method":"ping","params":{"a":"\xff\xfe"}}')
    assert front.hear()["id"] == "x"
    front.send(b"[" * 100000)
    assert front.hear()["error"]["code"] == -32700
    front.send(b"\x00\x01\x02")
    assert front.hear()["error"]["code"] == -32700
    front.send(b'{"jsonrpc":"2.0","id":9223372036854775807,"method":"ping"}')
    assert front.hear() == {"jsonrpc": "2.0", "id": 9223372036854775807, "result": {}}


def test_a_long_line_is_taken_and_a_longer_one_refused(front, place):
    content = "x" * (4 << 20)
    id_ = front.ask("tools/call", name="sandbox_write_file",
                    arguments={"file_path": "/tmp/big", "content": content})
    assert "4194304 bytes written" in front.text(id_)
    front.send(b'{"jsonrpc":"2.0","id":77,"method":"ping","params":{"pad":"' + b"y" * (42 << 20) +
               b'"}}')
    answer = front.hear()
    assert answer["id"] == 77 and "longer than" in answer["error"]["message"]
    front.ask("ping")
    assert front.hear()["result"] == {}


def test_a_broker_that_comes_back_costs_nothing(front, place):
    id_ = front.exec("sh", "-c", "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two")
    support.wait_until(lambda: place.is_running("echo two"), "the command runs")
    place.kill_broker()
    other = front.exec("touch", "/tmp/go")
    answers = {a["id"]: a["result"]["content"][0]["text"] for a in (front.hear(), front.hear())}
    assert set(answers) == {id_, other}
    assert "one\ntwo" in answers[id_]


def test_a_start_whose_answer_was_lost_is_found_again(front, place):
    place.cut_next("sandbox_exec", "after")
    assert "first" in front.text(front.exec("sh", "-c", "echo x >> /tmp/count; echo first"))
    assert "1\n" in front.text(front.exec("sh", "-c", "grep -c x /tmp/count"))


def test_a_start_that_never_arrived_is_made_again(front, place):
    place.cut_next("sandbox_exec", "before")
    assert "first" in front.text(front.exec("sh", "-c", "echo x >> /tmp/count; echo first"))
    assert "1\n" in front.text(front.exec("sh", "-c", "grep -c x /tmp/count"))


def test_what_may_not_be_done_twice_is_told(front, place):
    place.cut_next("run_python_code", "after")
    front.text(front.exec("true"))
    id_ = front.ask("tools/call", name="run_python_code", arguments={"code": "print(1)"})
    answer = front.hear()
    assert answer["id"] == id_ and answer["result"]["isError"]
    assert "may have been done or not" in answer["result"]["content"][0]["text"]


def test_writing_a_file_is_done_again(front, place):
    place.cut_next("sandbox_write_file", "after")
    id_ = front.ask("tools/call", name="sandbox_write_file",
                    arguments={"file_path": "/tmp/a", "content": "b"})
    assert "1 bytes written" in front.text(id_)


def test_a_session_that_ended_is_told_and_replaced(front, place):
    front.text(front.exec("echo", "a"))
    before = place.sessions()
    for session in before:
        place.bailey("session", "rm", session)
    second = front.text(front.exec("echo", "b"))
    assert "the earlier session has ended (it was deleted)" in second and "b\n" in second, second
    assert len(place.sessions()) == 1 and place.sessions() != before
    assert "earlier session" not in front.text(front.exec("true")), "it is said once"


def test_first_calls_beside_each_other_share_a_session(front, place):
    for number in range(8):
        front.exec("echo", str(number))
    for _ in range(8):
        assert not front.hear()["result"]["isError"]
    assert len(place.sessions()) == 1


def test_the_end_of_input_ends_everything(front, place):
    front.exec("sh", "-c", "sleep 1000; echo late")
    support.wait_until(lambda: place.is_running("late"), "the command runs")
    out, _ = front.end()
    assert out == b"" and front.process.returncode == 0
    assert place.sessions() == []


def test_lines_before_the_end_of_input_are_answered(place):
    """`echo MESSAGE | bailey mcp`, as somebody tries it."""
    front = Front(place)
    front.ask("initialize", **INITIALIZE)
    front.ask("tools/list")
    out, err = front.end()
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2] and err == b"", (out, err)


def test_a_client_that_reads_nothing_is_not_waited_for_after_the_end_of_input(place):
    front = Front(place)
    for _ in range(2000):
        front.ask("tools/list")
        if not select.select([], [front.process.stdin], [], 0.2)[1]:
            break
    front.process.stdin.close()
    assert front.process.wait(support.PATIENCE) == 0
    front.process.stdin = None
    front.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything(front, place, number):
    front.exec("sh", "-c", "sleep 1000; echo late")
    support.wait_until(lambda: place.is_running("late"), "the command runs")
    front.process.send_signal(number)
    assert front.process.wait(support.PATIENCE) == 128 + number
    assert place.sessions() == []


def test_a_killed_command_leaves_nothing(front, place):
    """SIGKILL: only the end of its connection tells the daemon."""
    front.exec("sh", "-c", "sleep 1000; echo late")
    support.wait_until(lambda: place.is_running("late"), "the command runs")
    front.process.kill()
    support.wait_until(lambda: place.sessions() == [], "the session was deleted")


def test_a_stopped_daemon_stays_stopped(front, place):
    """Somebody stops the daemon beneath an idle front: only the next line starts one again."""
    front.text(front.exec("true"))
    assert place.bailey("daemon", "stop", "--force").returncode == 0
    out, err = front.end()
    assert (out, err) == (b"", b"")
    assert place.bailey("daemon", "status").returncode == 3


def test_a_line_starts_a_daemon_again(front, place):
    front.text(front.exec("true"))
    assert place.bailey("daemon", "stop", "--force").returncode == 0
    front.ask("ping")
    assert front.hear()["result"] == {}


def test_a_signal_is_heard_while_nobody_reads(front, place):
    """The pipe is full of answers: the front must not be stuck in a write."""
    assert front.process.stdout.fileno() >= 0
    for _ in range(2000):
        front.ask("tools/list")
        if not select.select([], [front.process.stdin], [], 0.2)[1]:
            break
    front.process.send_signal(signal.SIGTERM)
    assert front.process.wait(support.PATIENCE) == 128 + signal.SIGTERM


def test_a_named_session_stays_and_its_commands_end(place):
    front = Front(place, "--session", "mine")
    front.exec("sh", "-c", "sleep 1000; echo late")
    support.wait_until(lambda: place.is_running("late"), "the command runs")
    front.end()
    assert place.sessions() == ["mine"]
    support.wait_until(lambda: not place.is_running("late"), "the command was killed")


def test_a_parent_that_is_gone_is_noticed(place):
    """Its input and output stay open in our hands: only the parent tells."""
    its_input, ours = os.pipe()
    answers, its_output = os.pipe()
    program = ("import subprocess, sys\n"
               "p = subprocess.Popen(sys.argv[3:], stdin=int(sys.argv[1]), stdout=int(sys.argv[2]))\n"
               "print(p.pid, flush=True)\n"
               "sys.stdin.read()\n")
    starter = subprocess.Popen([sys.executable, "-c", program, str(its_input), str(its_output),
                                str(support.BAILEY), "mcp"], env=place.env,
                               pass_fds=[its_input, its_output], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    pid = int(starter.stdout.readline())
    os.write(ours, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert b'"result"' in os.read(answers, 1000)
    starter.communicate(timeout=support.PATIENCE)

    def is_gone():
        support.reap_orphans()
        return not os.path.exists(f"/proc/{pid}")

    support.wait_until(is_gone, "it left with its parent", timeout=support.PATIENCE)
    for fd in (its_input, ours, answers, its_output):
        os.close(fd)


def test_structured_content_is_a_switch(place):
    front = Front(place, "--structured")
    front.exec("echo", "both")
    result = front.hear()["result"]
    assert result["structuredContent"]["stdout"] == "both\n"
    assert result["structuredContent"]["text"] == result["content"][0]["text"]
    front.end()


@pytest.mark.parametrize("name", ["x" * 200, "a b", ""])
def test_bad_options(place, name):
    done = place.bailey("mcp", "--session", name)
    assert done.returncode == 125 and done.stdout == "" and "--session" in done.stderr


def test_output_that_was_cut_can_be_read_whole(place):
    front = Front(place)
    text = front.text(front.exec("sh", "-c", "i=0; while [ $i -lt 9000 ]; do echo $i; i=$((i+1)); done"))
    whole = ""
    while "[more] " in text:
        shown, more = text.split("\n... (output truncated)\n[more] stdout has ")
        whole += shown.split("]\n", 1)[1]
        arguments = json.loads(more[more.index("{"):more.index("}") + 1])
        whole += "\n" * (arguments["offset"] - len(whole))  # the mark begins a line of its own
        text = front.text(front.ask("tools/call", name="sandbox_wait", arguments=arguments))
    whole += text.split("]\n", 1)[1]
    assert whole == "".join(f"{i}\n" for i in range(9000))
    (session,) = place.sessions()
    uri = f"sandbox://{session}/.log/1/stdout"
    front.ask("resources/read", uri=uri)
    assert front.hear()["result"]["contents"][0]["text"] == whole
    for bad in (uri + "x", uri.replace("/stdout", ""), uri.replace(".log/1", ".log/99")):
        front.ask("resources/read", uri=bad)
        assert front.hear()["error"]["code"] == -32002
    front.end()


def test_the_real_broker_may_be_killed(place):
    """kill -9 of the broker in the middle of two calls: both get their answers."""
    front = Front(place)
    wait = "while [ ! -e /tmp/%s ]; do sleep 0.02; done; echo %s"
    first = front.exec("sh", "-c", "echo one; touch /tmp/runs; " + wait % ("go", "two"))
    front.text(front.exec("sh", "-c", wait % ("runs", "runs")))
    status = json.loads(place.bailey("daemon", "status", "--json").stdout)
    os.kill(status["broker_pid"], signal.SIGKILL)
    second = front.exec("touch", "/tmp/go")
    answers = {a["id"]: a["result"] for a in (front.hear(), front.hear())}
    assert set(answers) == {first, second}
    assert not any(a["isError"] for a in answers.values()), answers
    assert "one\ntwo" in answers[first]["content"][0]["text"]
    again = json.loads(place.bailey("daemon", "status", "--json").stdout)
    assert again["broker_pid"] != status["broker_pid"]
    front.end()
    assert place.sessions() == []


# --- a furnished session

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def two_datasets(place):
    place.room.write("a.csv", "x\n7\n")
    place.room.write("b.csv", "y\n8\n")
    return ["--data", "a=a.csv", "--data", "b=b.csv"]


def test_a_session_with_data_is_there_before_the_first_call(place):
    front = Front(place, "--template", "python", *two_datasets(place))
    assert "7" in front.text(front.exec("cat", "/tmp/data/a.csv"))
    assert "8" in front.text(front.exec("cat", "/tmp/data/b.csv"))
    assert len(place.sessions()) == 1
    front.end()
    assert place.sessions() == [], "it was made for this conversation"


def test_it_ends_with_the_conversation_that_never_called(place):
    front = Front(place, *two_datasets(place))
    front.ask("ping")
    front.hear()
    assert len(place.sessions()) == 1
    front.end()
    assert place.sessions() == []


def test_its_data_is_there_again_when_it_has_expired(place):
    place.env["SANDBOX_SESSION_IDLE"] = "1"
    front = Front(place, *two_datasets(place))
    front.text(front.exec("touch", "/tmp/mine"))
    support.wait_until(lambda: not place.sessions(), "the session has expired")
    text = front.text(front.exec("sh", "-c", "cat /tmp/data/a.csv; ls /tmp/mine"))
    assert "x\n7" in text and "No such file" in text, text
    assert "it was idle too long" in text and "the same datasets: /tmp/data/a.csv" in text, text
    front.end()


def test_a_named_session_is_furnished_and_stays(place):
    front = Front(place, "--session", "work", *two_datasets(place))
    front.text(front.exec("touch", "/tmp/mine"))
    front.end()
    assert place.sessions() == ["work"]
    again = Front(place, "--session", "work", "--template", "python", "--data", "c=a.csv")
    text = again.text(again.exec("ls", "/tmp/mine", "/tmp/data"))
    assert all(name in text for name in ("/tmp/mine", "a.csv", "b.csv", "c.csv")), text
    again.end()


@pytest.mark.parametrize("options, words", [
    (["--data", "a=nowhere.csv"], "nowhere.csv"), (["--data", "a"], "NAME=FILE"),
    (["--template", "nowhere"], "there is no template"), (["--template", "data"], "bailey template build data")])
def test_what_cannot_be_had_is_said_at_once(place, options, words):
    front = Front(place, *options)
    out, err = front.end()
    assert front.process.returncode == 125 and out == b"" and words in err.decode(), err
    assert place.sessions() == []


def test_a_session_with_another_template_is_refused(place):
    made = place.bailey("session", "new", "--name", "work", "--template", "python")
    assert made.returncode == 0, made
    body = json.dumps({"name": "own", "packages": [], "warm_up": []}).encode()
    assert place.post("/v1/templates", body)["name"] == "own"
    front = Front(place, "--session", "work", "--template", "own")
    out, err = front.end()
    assert front.process.returncode == 125 and out == b"", err
    assert b"has the template 'python'" in err and b"bailey session rm work" in err, err
    assert place.sessions() == ["work"], "it was not touched"


def test_the_prompt_uses_packages_that_the_template_of_the_session_has(place):
    """Also of a template that was built after the daemon had started, under any name."""
    shelf = [wheels.Wheel(name, "1.0", {f"{name}.py": ""}) for name in ("polars", "matplotlib", "scikit_learn")]
    wheels.folder(place.room.work / "shelf", *shelf)
    place.env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(place.room.work / "shelf"))
    assert place.bailey("session", "ls").returncode == 0
    body = json.dumps({"name": "own", "packages": ["polars", "matplotlib", "scikit-learn"], "warm_up": []}).encode()
    made = place.post("/v1/templates", body)
    assert made.get("name") == "own", made
    for options, has_polars in (("--template", "own"), True), (("--template", "python"), False):
        front = Front(place, *options)
        front.ask("initialize", **INITIALIZE)
        front.hear()
        front.ask("prompts/list")
        (prompt,) = front.hear()["result"]["prompts"]
        front.ask("prompts/get", name=prompt["name"])
        text = front.hear()["result"]["messages"][0]["content"]["text"]
        assert ("import polars as pl" in text) is has_polars, text
        front.end()


def test_the_instructions_say_which_packages_there_are(place):
    wheels.folder(place.room.work / "shelf", wheels.Wheel("moat", "1.0", {"moat.py": "depth = 41\n"}))
    place.env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(place.room.work / "shelf"))
    plain = Front(place)
    plain.ask("initialize", **INITIALIZE)
    assert '["pip", "list"] lists it' in plain.hear()["result"]["instructions"]
    plain.end()
    body = json.dumps({"name": "data", "packages": ["moat"], "warm_up": []}).encode()
    assert place.post("/v1/templates", body)["name"] == "data"
    for options, words in (((), "packages: moat."), (("--template", "python"), '["pip", "list"] lists it')):
        front = Front(place, *options)
        front.ask("initialize", **INITIALIZE)
        assert words in front.hear()["result"]["instructions"]
        front.end()
