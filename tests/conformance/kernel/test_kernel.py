"""
Code that keeps its variables, the same for every language: docs/kernels.md, one row of LANGUAGES
each. A language whose interpreter this machine does not have is skipped and says so.
"""
import os
import signal
import threading

import pytest

import serve


class Language:
    """What a test says, in a language. `value` and `error` are None where a language has none."""

    def __init__(self, name, **words):
        self.name = name
        self.__dict__.update(words)

    def __repr__(self):
        return self.name


LANGUAGES = [
    Language("python",
             set="x = {0}", show="print(x)", value="x + 1", echo="print({0!r})",
             stderr="import sys; print('wrong', file=sys.stderr)",
             error=("def f():\n    y = 1\n    return y / 0\nf()", "ZeroDivisionError", "line 3"),
             wait="import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)",
             stubborn=("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                       "print('begun', flush=True)\nwhile True: time.sleep(0.01)"),
             slow="import time\nfor i in range({0}):\n    print(i, flush=True); time.sleep(0.02)",
             die="import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
             exit="import os; os._exit(3)", env="import os; print(os.environ.get('K', 'none'))",
             input="print(input())", folder="import os; print(os.getcwd())",
             undefined="x"),
    Language("javascript",
             set="var x = {0}", show="console.log(x)", value="x + 1", echo="console.log({0!r})",
             stderr="console.error('wrong')",
             error=("function f() {\n  let y = null;\n  return y.z;\n}\nf()", "TypeError", "line 3"),
             wait="console.log('begun'); for (;;) {}",
             stubborn=None,
             slow=("for (let i = 0; i < {0}; i++) {{ console.log(i); "
                   "await new Promise(r => setTimeout(r, 20)); }}"),
             die="process.kill(process.pid, 'SIGKILL'); await new Promise(r => {})",
             exit="process.reallyExit(3)",
             env="console.log(process.env.K ?? 'none')",
             input=None, folder="console.log(process.cwd())",
             undefined="x"),
    Language("bash",
             set="x={0}", show="echo $x", value=None, echo="echo {0!r}",
             stderr="echo wrong >&2",
             error=None,
             # Builtins only: a Bash that is just starting a program may not hear one interrupt.
             wait="echo begun; while :; do :; done",
             stubborn="trap '' INT; echo begun; while :; do sleep 0.05; done",
             slow="for ((i = 0; i < {0}; i++)); do echo $i; sleep 0.02; done",
             die="kill -KILL $$", exit="exec sh -c 'exit 3'",
             env="echo ${{K:-none}}".replace("{{", "{").replace("}}", "}"),
             input="read line; echo $line", folder="pwd",
             undefined='[[ -v x ]]'),
]


@pytest.fixture(scope="module")
def daemon(runtime):
    with serve.Daemon({"SANDBOX_SUPPORTED_LANGUAGES": "python,javascript,bash"}) as running:
        yield running


@pytest.fixture(params=LANGUAGES, ids=repr)
def language(request):
    return request.param


class Cells:
    """A session of its own, and cells of one language in it."""

    def __init__(self, daemon, language, session):
        self.daemon, self.language, self.session = daemon, language, session
        self.path = f"/v1/sessions/{session}"

    def body(self, code, **members):
        members.setdefault("language", self.language.name)
        return {"code": code, **members}

    def run(self, code, **members):
        return self.daemon.post(self.path + "/code", self.body(code, **members))

    def events(self, code, **members):
        return self.daemon.events(self.path + "/code", self.body(code, **members), method="POST")

    def background(self, code, **members):
        begun = self.daemon.post(self.path + "/code", self.body(code, background=True, **members),
                                 202)
        return begun["execution_id"]

    def follow(self, execution, last=None):
        return self.daemon.events(f"{self.path}/processes/{execution}/events", last=last)

    def contexts(self):
        return self.daemon.get(self.path + "/contexts")["contexts"]

    def context(self):
        found = [c for c in self.contexts() if c["language"] == self.language.name]
        assert len(found) == 1, found
        return found[0]

    def do(self, what):
        return self.daemon.post(f"{self.path}/contexts/{self.context()['id']}/{what}")


@pytest.fixture
def cells(daemon, language):
    session = daemon.session()["id"]
    made = Cells(daemon, language, session)
    reply = daemon.call("POST", made.path + "/contexts", {"language": language.name})
    if reply.status != 201 and reply.error["code"] == "no_interpreter":
        daemon.end(session)
        pytest.skip(reply.error["message"])
    assert reply.status == 201, reply
    daemon.asked("DELETE", f"{made.path}/contexts/{reply.json()['id']}")
    yield made
    daemon.end(session)


def out(result):
    assert result["exit_code"] == 0, result
    return result["stdout"].strip()


def test_state_is_kept(cells):
    first = cells.run(cells.language.set.format(41))
    assert first["exit_code"] == 0 and first["meta"]["kernel"] == "new", first
    second = cells.run(cells.language.show)
    assert out(second) == "41" and second["meta"]["kernel"] == "kept", second
    assert second["meta"]["context"] == first["meta"]["context"], second
    assert second["meta"]["language"] == cells.language.name
    assert second["meta"]["warm"] in ("cold", "zygote", "pool"), second
    context = cells.context()
    assert (context["state"], context["cells"], context["default"]) == ("idle", 2, True), context


def test_the_value_of_the_last_expression(cells):
    if not cells.language.value:
        pytest.skip(f"{cells.language} has no values, only output")
    cells.run(cells.language.set.format(41))
    result = cells.run(cells.language.value)
    assert [r["type"] for r in result["results"]] == ["result"], result
    assert result["results"][0]["data"]["text/plain"] == "42", result
    assert result["error"] is None and result["execution_count"] == 2, result
    assert cells.run(cells.language.set.format(1))["results"] == [], "an assignment has none"


def test_output_of_both_streams(cells):
    assert out(cells.run(cells.language.echo.format("a word"))) == "a word"
    result = cells.run(cells.language.stderr)
    assert "wrong" in result["stderr"] and result["stdout"] == "", result


def test_an_error_names_its_line(cells):
    if not cells.language.error:
        result = cells.run("false")
        assert result["exit_code"] == 1, result
        pytest.skip(f"{cells.language} has no exceptions; its status was 1")
    code, name, line = cells.language.error
    result = cells.run(code)
    assert result["exit_code"] == 1, result
    assert result["error"]["name"] == name, result
    assert line in result["error"]["traceback"], result
    assert "/bailey/" not in result["error"]["traceback"], result
    assert out(cells.run(cells.language.echo.format("on"))) == "on"


def test_interrupt_keeps_variables(cells):
    cells.run(cells.language.set.format(7))
    with cells.events(cells.language.wait, timeout=0) as events:
        events.until("stdout", lambda data: "begun" in data["data"])
        assert cells.context()["state"] == "busy"
        cells.do("interrupt")
        result = events.until("exit").data
    assert result["exit_code"] != 0 and not result["meta"]["timed_out"], result
    assert "kernel_lost" not in result["meta"], result
    after = cells.run(cells.language.show)
    assert out(after) == "7" and after["meta"]["kernel"] == "kept", after
    context = cells.context()["id"]
    cells.daemon.refused("POST", f"{cells.path}/contexts/{context}/interrupt", 409,
                         "execution_ended")


def test_restart_loses_variables(cells):
    cells.run(cells.language.set.format(7))
    assert cells.do("restart")["state"] == "new"
    result = cells.run(cells.language.undefined)
    assert result["exit_code"] == 1 and result["meta"]["kernel"] == "new", result
    assert "kernel_note" not in result["meta"], result


def test_a_restart_ends_what_runs(cells):
    with cells.events(cells.language.wait, timeout=0) as events:
        events.until("stdout", lambda data: "begun" in data["data"])
        cells.do("restart")
        result = events.until("exit").data
    assert result["meta"]["signal"] == signal.SIGKILL and result["meta"]["kernel_lost"], result
    assert out(cells.run(cells.language.echo.format("on"))) == "on"


def test_two_contexts_are_independent(cells):
    other = cells.daemon.post(cells.path + "/contexts",
                              {"language": cells.language.name, "name": "other", "cwd": "/tmp"}, 201)
    assert other["state"] == "new" and other["name"] == "other" and not other["default"], other
    cells.run(cells.language.set.format(1))
    cells.run(cells.language.set.format(2), context="other")
    assert out(cells.run(cells.language.show)) == "1"
    assert out(cells.run(cells.language.show, context=other["id"])) == "2"
    assert out(cells.run(cells.language.folder)) == "/workspace"
    assert out(cells.run(cells.language.folder, context="other")) == "/tmp"
    cells.daemon.refused("POST", cells.path + "/contexts", 409, "context_taken",
                         {"language": cells.language.name, "name": "other"})
    cells.daemon.asked("DELETE", f"{cells.path}/contexts/other")
    cells.daemon.refused("POST", cells.path + "/code", 404, "context_not_found",
                         cells.body(cells.language.show, context="other"))


def test_a_timeout_interrupts(cells):
    cells.run(cells.language.set.format(7))
    result = cells.run(cells.language.wait, timeout=0.3)
    assert result["exit_code"] == -1 and result["meta"]["timed_out"], result
    assert "begun" in result["stdout"] and "kernel_lost" not in result["meta"], result
    assert out(cells.run(cells.language.show)) == "7"


def test_a_cell_that_ignores_its_timeout_loses_its_kernel(cells):
    if not cells.language.stubborn:
        pytest.skip(f"{cells.language} cannot ignore an interrupt")
    result = cells.run(cells.language.stubborn, timeout=0.3)
    assert result["exit_code"] == -1 and result["meta"]["timed_out"], result
    assert result["meta"]["kernel_lost"] is True, result
    after = cells.run(cells.language.echo.format("on"))
    assert out(after) == "on" and after["meta"]["kernel"] == "replaced", after
    assert "timeout" in after["meta"]["kernel_note"], after


def test_a_killed_kernel_is_replaced_and_told(cells):
    cells.run(cells.language.set.format(7))
    result = cells.run(cells.language.die)
    assert result["exit_code"] == 128 + signal.SIGKILL, result
    assert result["meta"]["signal"] == signal.SIGKILL and result["meta"]["kernel_lost"], result
    assert cells.context()["state"] == "dead"
    after = cells.run(cells.language.undefined)
    assert after["exit_code"] == 1 and after["meta"]["kernel"] == "replaced", after
    assert "signal 9" in after["meta"]["kernel_note"], after
    again = cells.run(cells.language.echo.format("on"))
    assert again["meta"]["kernel"] == "kept" and "kernel_note" not in again["meta"], again


def test_a_kernel_that_exits_is_replaced_and_told(cells):
    result = cells.run(cells.language.exit)
    assert result["exit_code"] == 3 and result["meta"]["kernel_lost"], result
    after = cells.run(cells.language.echo.format("on"))
    assert after["meta"]["kernel"] == "replaced", after
    assert "status 3" in after["meta"]["kernel_note"], after


def test_environment_is_for_one_cell(cells):
    assert out(cells.run(cells.language.env, env={"K": "v"})) == "v"
    assert out(cells.run(cells.language.env)) == "none"


def test_the_sessions_environment_is_there(daemon, language):
    session = daemon.session(env={"K": "session"})["id"]
    mine = Cells(daemon, language, session)
    reply = daemon.call("POST", mine.path + "/code", mine.body(language.env))
    daemon.end(session)
    if reply.status != 200 and reply.error["code"] == "no_interpreter":
        pytest.skip(reply.error["message"])
    assert out(reply.json()) == "session"


def test_input_is_what_was_given(cells):
    if not cells.language.input:
        pytest.skip(f"{cells.language} reads no input in a cell")
    assert out(cells.run(cells.language.input, stdin="a line\nanother\n")) == "a line"


def test_cells_wait_for_each_other_and_count_their_own_time(cells):
    """Three that each take half of their time: none times out because of those before it."""
    code = cells.language.slow.format(10)
    begun = [cells.background(code, timeout=5) for _ in range(3)]
    ended = [cells.daemon.wait(execution) for execution in begun]
    assert [one["exit_code"] for one in ended] == [0, 0, 0], ended
    assert not any(one["timed_out"] for one in ended)
    assert ended[0]["ended_at"] <= ended[1]["started_at"] <= ended[2]["started_at"], ended
    assert cells.context()["cells"] == 3


def test_a_cell_that_waits_can_be_taken_out(cells):
    with cells.events(cells.language.wait, timeout=0) as events:
        events.until("stdout", lambda data: "begun" in data["data"])
        waiting = cells.background(cells.language.echo.format("never"))
        cells.daemon.post(f"{cells.path}/processes/{waiting}/signal", {"signal": "KILL"})
        assert cells.daemon.wait(waiting)["error"]["code"] == "cancelled"
        cells.do("interrupt")
        events.until("exit")
    assert out(cells.run(cells.language.echo.format("on"))) == "on"


def test_a_cell_is_a_process_of_the_session(cells):
    execution = cells.run(cells.language.echo.format("listed"))["meta"]["execution_id"]
    found = cells.daemon.get(f"{cells.path}/processes/{execution}")
    assert (found["kind"], found["state"], found["exit_code"]) == ("cell", "exited", 0), found
    assert found["context"] == cells.context()["id"], found
    assert found["argv"] == ["<cell>", cells.language.name, found["context"]], found
    assert cells.daemon.output(execution).body.strip() == b"listed"


def test_events_resume_where_they_were(cells):
    execution = cells.background(cells.language.slow.format(30))
    with cells.follow(execution) as events:
        last = events.until("stdout", lambda data: "5\n" in data["data"])
    seen = b"".join(serve.decoded(e.data) for e in events.seen if e.type == "stdout")
    assert last.id.count("-") == 2, last
    with cells.follow(execution, last.id) as events:
        end = events.until("exit").data
    assert not [e for e in events.seen if e.type == "started"], events.seen
    seen += b"".join(serve.decoded(e.data) for e in events.seen if e.type == "stdout")
    assert seen.split() == [str(i).encode() for i in range(30)], seen
    assert end["exit_code"] == 0 and end["meta"]["execution_id"] == execution, end


def test_values_as_events(cells):
    if not cells.language.value:
        pytest.skip(f"{cells.language} has no values, only output")
    cells.run(cells.language.set.format(41))
    with cells.events(cells.language.value) as events:
        events.until("exit")
    values = [e for e in events.seen if e.type == "result"]
    assert len(values) == 1 and values[0].data["data"]["text/plain"] == "42", events.seen
    execution = events.seen[0].data["execution_id"]
    with cells.follow(execution, values[0].id) as again:
        again.until("exit")
    assert [e.type for e in again.seen] == ["exit"], again.seen
    with cells.follow(execution, values[0].id.rpartition("-")[0]) as again:
        again.until("exit")  # an id of two numbers: events from the first on
    assert [e.type for e in again.seen] == ["result", "exit"], again.seen


def test_who_leaves_interrupts_and_keeps_variables(cells):
    cells.run(cells.language.set.format(7))
    with cells.events(cells.language.wait, timeout=0) as events:
        events.until("stdout", lambda data: "begun" in data["data"])
        execution = events.seen[0].data["execution_id"]
    assert cells.daemon.wait(execution)["state"] == "exited"
    assert out(cells.run(cells.language.show)) == "7"


def generation(daemon):
    try:
        return daemon.get("/v1/info")["generation"]
    except OSError:  # nobody listens for a moment
        return 0


def kill_broker(daemon):
    info = daemon.get("/v1/info")
    os.kill(info["broker_pid"], signal.SIGKILL)
    serve.polled(lambda: generation(daemon), lambda now: now > info["generation"], "a new broker")


def test_a_killed_broker_loses_nothing(language, runtime):
    """With a daemon of its own: a new broker is a process that the file's would seem to leave."""
    with serve.Daemon({"SANDBOX_SUPPORTED_LANGUAGES": "python,javascript,bash"}) as daemon:
        cells = Cells(daemon, language, daemon.session()["id"])
        reply = daemon.call("POST", cells.path + "/code", cells.body(language.set.format(7)))
        if reply.status != 200 and reply.error["code"] == "no_interpreter":
            pytest.skip(reply.error["message"])
        execution = cells.background(language.slow.format(60))
        with cells.follow(execution) as events:
            last = events.until("stdout", lambda data: "9\n" in data["data"])
        seen = b"".join(serve.decoded(e.data) for e in events.seen if e.type == "stdout")
        kill_broker(daemon)
        assert cells.context()["state"] == "busy"
        with cells.follow(execution, last.id) as events:
            end = events.until("exit").data
        seen += b"".join(serve.decoded(e.data) for e in events.seen if e.type == "stdout")
        assert seen.split() == [str(i).encode() for i in range(60)], seen
        assert end["exit_code"] == 0 and end["meta"]["kernel"] == "kept", end
        assert out(cells.run(language.show)) == "7"
        kill_broker(daemon)
        assert daemon.output(execution).body.split()[-1] == b"59"
        after = cells.run(language.show)
        assert out(after) == "7" and after["meta"]["kernel"] == "kept", after
        assert cells.context()["cells"] == 4, cells.context()


def test_many_callers_of_one_context(cells):
    """Cells of one context never run beside each other, whoever sends them."""
    code, results = cells.language.slow.format(3), []

    def call():
        results.append(cells.run(code))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out(r).split() for r in results] == [["0", "1", "2"]] * 8, results


def test_bad_requests(cells):
    path = cells.path + "/code"
    cells.daemon.refused("POST", path, 400, "bad_input", cells.body("  \n"))
    cells.daemon.refused("POST", path, 400, "bad_input", {"code": "1", "language": "cobol"})
    cells.daemon.refused("POST", path, 404, "context_not_found", cells.body("1", context="none"))
    cells.daemon.refused("POST", cells.path + "/contexts", 400, "bad_input",
                         {"language": cells.language.name, "name": "c7"})
    cells.daemon.refused("POST", cells.path + "/contexts/none/restart", 404, "context_not_found")
    for i in range(32):
        reply = cells.daemon.call("POST", cells.path + "/contexts",
                                  {"language": cells.language.name})
        assert reply.status == 201, (i, reply)
    cells.daemon.refused("POST", cells.path + "/contexts", 429, "too_many_contexts",
                         {"language": cells.language.name})
