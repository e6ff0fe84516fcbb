"""What happened: metrics that count it, an audit that holds together, a log that finds a request again.

Nothing that is secret may stand in any of them: the test plants some and looks.
"""
import json
import re
import time

import serve
import support
import tenants

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
KEY = re.compile(r"bly_[0-9a-f]+\.[A-Za-z0-9_-]+")


def metrics(daemon):
    """Lines of /metrics: name with labels to number."""
    reply = daemon.asked("GET", "/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"), reply
    return {name: float(value) for name, _, value in (
        line.rpartition(" ") for line in reply.body.decode().splitlines() if line[0] != "#")}


def lines(daemon, **query):
    reply = daemon.asked("GET", "/v1/audit", query=query)
    assert reply.headers["Content-Type"] == "application/x-ndjson", reply
    return [json.loads(line) for line in reply.body.decode().splitlines()]


def audit_file(daemon, name="audit.jsonl"):
    return daemon.state / "logs" / name


def verify(daemon, status=0):
    done = daemon.bailey("audit", "verify", "--json")
    assert done.status == status, done
    return json.loads(done.out)


def run(daemon, code, **members):
    return daemon.post("/v1/run", {"language": "python", "code": code, **members})


def test_metrics_count_what_happens():
    with serve.Daemon() as daemon:
        run(daemon, "print('x' * 99)")
        run(daemon, "raise SystemExit(3)")
        run(daemon, "while True: pass", timeout=0.5)
        made = daemon.session(name="counted")["id"]
        daemon.exec(made, "true")
        daemon.write(made, "/workspace/a", b"12345")
        assert daemon.read(made, "/workspace/a") == b"12345"
        seen = metrics(daemon)
        for result in ("ok", "error", "timeout"):
            key = f'bailey_results_total{{kind="run",result="{result}",tenant="local"}}'
            assert seen[key] == 1, (key, seen)
        assert seen['bailey_results_total{kind="exec",result="ok",tenant="local"}'] == 1, seen
        assert seen['bailey_output_bytes_total{tenant="local"}'] == 100, seen
        assert seen['bailey_file_bytes_total{direction="in"}'] == 5, seen
        assert seen['bailey_file_bytes_total{direction="out"}'] == 5, seen
        assert seen['bailey_sessions{tenant="local"}'] == 1, seen
        assert seen["bailey_broker_generation"] == 1, seen
        assert seen['bailey_http_requests_total{door="rest",status="2xx"}'] >= 6, seen
        made_ = [name for name in seen if name.startswith("bailey_box_creation_seconds_count")]
        assert sum(seen[name] for name in made_) == 4, seen
        with daemon.events("/v1/events"):
            support.wait_until(lambda: metrics(daemon).get('bailey_streams{door="sse"}') == 1,
                               "the stream is counted")
        support.wait_until(lambda: metrics(daemon)['bailey_streams{door="sse"}'] == 0,
                           "and when it has ended")


def test_metrics_tell_the_build_and_the_process():
    """The rows that dashboards made for any Prometheus client expect, with the numbers of the broker itself."""
    with serve.Daemon() as daemon:
        info, seen, before = daemon.get("/v1/info"), metrics(daemon), time.time()
        broker = f"/proc/{info['broker_pid']}"
        assert seen[f'bailey_build_info{{version="{info["version"]}"}}'] == 1, seen
        assert seen["process_start_time_seconds"] > before - 600, seen
        assert seen["process_start_time_seconds"] <= before + 1, seen
        with open(f"{broker}/limits") as file:
            row = next(line for line in file if line.startswith("Max open files"))
        assert seen["process_max_fds"] == int(row.split()[3]), (row, seen)
        assert 5 < seen["process_open_fds"] < 200, seen
        assert 1 << 20 < seen["process_resident_memory_bytes"] < seen["process_virtual_memory_bytes"], seen
        for _ in range(50):
            daemon.get("/v1/info")
        support.wait_until(lambda: metrics(daemon)["process_cpu_seconds_total"] > seen["process_cpu_seconds_total"],
                           "CPU time is counted")


def test_the_audit_of_a_day():
    with serve.Daemon() as daemon:
        run(daemon, "print(1)")
        made = daemon.session()["id"]
        daemon.exec(made, "sh", "-c", "exit 4")
        daemon.post(f"/v1/sessions/{made}/code", {"code": "1 + 1"})
        daemon.write(made, "/workspace/a", b"x")
        daemon.refused("PUT", f"/v1/sessions/{made}/files", 403, "read_only", b"x",
                       query={"path": "/tmp/data/a"})
        daemon.end(made)
        told = lines(daemon)
        assert [line["seq"] for line in told] == list(range(1, len(told) + 1)), told
        by_action = {line["action"]: line for line in told}
        for action in ("run", "exec", "cell", "file", "session.created"):
            assert action in by_action, (action, told)
            assert by_action[action]["tenant"] == "local" and by_action[action]["local"], told
            assert by_action[action]["request_id"].startswith("req_"), told
        assert by_action["run"]["code_sha256"] == serve.sha256(b"print(1)"), told
        assert "code" not in by_action["run"] and by_action["run"]["result"] == "ok", told
        assert "seccomp" in by_action["run"]["layers"] and "seccomp" in by_action["exec"]["layers"]
        assert by_action["exec"]["result"] == "error" and by_action["exec"]["exit_code"] == 4
        files = [(line["path"], line["result"]) for line in told if line["action"] == "file"]
        assert files == [("/workspace/a", "ok"), ("/tmp/data/a", "error")], told
        assert by_action["denied"]["error"] == "read_only", told
        assert by_action["denied"]["session_id"] == made, told
        assert [line["action"] for line in lines(daemon, session=made, action="exec")] == ["exec"]
        assert lines(daemon, tenant="nobody") == []
        assert lines(daemon, since="2999-01-01T00:00:00Z") == []
        assert len(lines(daemon, tail=2)) == 2
        daemon.refused("GET", "/v1/audit?since=yesterday", 400, "bad_input")
        assert verify(daemon)["intact"]


def test_the_command_line_reads_it():
    with serve.Daemon() as daemon:
        for number in range(5):
            run(daemon, f"print({number})")
        done = daemon.bailey("audit", "tail", "-n", "3")
        assert done.status == 0 and len(done.out.splitlines()) == 3, done
        done = daemon.bailey("audit", "query", "--action", "run", "--since", "1h")
        assert len(done.out.splitlines()) == 5, done
        follower = support.start("audit", "tail", "-f", "-n", "1", env=daemon.env, room=daemon.room,
                                 stdout=support.subprocess.PIPE)
        try:
            assert json.loads(follower.stdout.readline())["action"] == "run"
            run(daemon, "print('late')")
            assert json.loads(follower.stdout.readline())["code_sha256"] == serve.sha256(
                b"print('late')")
        finally:
            follower.kill()
            follower.wait()
        assert daemon.bailey("audit", "verify").status == 0
        assert daemon.bailey("audit", "nonsense").status == 125


def test_an_edit_shows_without_a_daemon():
    room = support.Room()
    try:
        with serve.Daemon(room=room) as daemon:
            for number in range(6):
                run(daemon, f"print({number})")
        path = audit_file(daemon)
        whole = path.read_bytes()
        assert verify(daemon)["intact"]
        path.write_bytes(whole.replace(b'"exit_code":0', b'"exit_code":1', 1))
        report = verify(daemon, 1)
        assert (report["intact"], report["file"]) == (False, "audit.jsonl"), report
        assert "changed" in report["problem"], report
        kept = whole.splitlines(True)
        path.write_bytes(b"".join(kept[:-2]))
        assert "missing at the end" in verify(daemon, 1)["problem"]
        # The next daemon goes on, and what it found stays visible.
        with serve.Daemon(room=room) as daemon:
            run(daemon, "print('on')")
            assert [line["action"] for line in lines(daemon)].count("audit.cut") == 1
            assert not verify(daemon, 1)["intact"]
    finally:
        room.remove()


def test_a_new_file_at_its_size():
    with serve.Daemon({"SANDBOX_AUDIT_SIZE": "1m", "SANDBOX_AUDIT_KEEP": 2,
                       "SANDBOX_STORE_CODE": "always"}) as daemon:
        code = "pass\n" + "# " + "x" * 60000
        for _ in range(40):
            run(daemon, code)
        assert audit_file(daemon, "audit.jsonl.2").exists()
        assert not audit_file(daemon, "audit.jsonl.1").exists()
        report = verify(daemon)
        assert report["intact"] and report["first"] > 1, report


def test_a_broker_that_dies():
    with serve.Daemon() as daemon:
        run(daemon, "print(1)")
        support.os.kill(daemon.get("/v1/info")["broker_pid"], support.signal.SIGKILL)

        def is_back():
            try:
                return daemon.call("GET", "/v1/info").json()["generation"] == 2
            except (OSError, ValueError, KeyError):
                return False
        support.wait_until(is_back, "another broker")
        run(daemon, "print(2)")
        assert verify(daemon)["intact"]
        assert metrics(daemon)['bailey_retries_total{what="broker"}'] == 1


def test_a_request_is_found_again():
    with serve.Daemon({"BAILEY_LOG": "info", "BAILEY_LOG_FORMAT": "json"}) as daemon:
        reply = daemon.asked("POST", "/v1/run", {"language": "python", "code": "print(1)"},
                             headers={"X-Request-Id": "order-66",
                                      "traceparent": f"00-{TRACE}-{PARENT}-01"})
        assert reply.headers["X-Request-Id"] == "order-66", reply
        assert reply.json()["meta"]["trace_id"] == TRACE, reply
        line = [one for one in lines(daemon) if one["action"] == "run"][0]
        assert (line["request_id"], line["trace_id"], line["parent_id"]) == (
            "order-66", TRACE, PARENT), line
        # A line comes when the last byte of the reply has gone.
        access = serve.polled(
            lambda: [one for one in map(json.loads, daemon.said().splitlines())
                     if one.get("request_id") == "order-66"], len, "the line of the request")
        assert len(access) == 1, access
        assert access[0]["path"] == "/v1/run" and access[0]["status"] == 200, access
        assert access[0]["tenant"] == "local" and access[0]["trace_id"] == TRACE, access
        assert access[0]["level"] == "info" and access[0]["bytes"] == len(reply.body), access
        # Malformed ones are as none, and a bad id is not said again.
        reply = daemon.asked("POST", "/v1/run", {"language": "python", "code": "print(1)"},
                             headers={"X-Request-Id": "a b<c>", "traceparent": "00-zz-1-1"})
        assert re.fullmatch("req_[0-9a-f]{32}", reply.headers["X-Request-Id"]), reply
        assert "trace_id" not in reply.json()["meta"], reply
        assert daemon.call("GET", "/nowhere").headers["X-Request-Id"].startswith("req_")
        with daemon.events("/v1/events") as stream:
            assert stream.reply.headers["X-Request-Id"].startswith("req_")


def text_fields(line):
    return dict(re.findall(r" (\w+)=(\S+)", line))


def test_lines_of_both_forms_say_whose_they_are():
    """Request, tenant and session, in the line of a request and in what is said meanwhile."""
    for form in ("text", "json"):
        with serve.Daemon({"BAILEY_LOG": "debug", "BAILEY_LOG_FORMAT": form}) as daemon:
            made = daemon.session()["id"]
            daemon.asked("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]},
                         headers={"X-Request-Id": "order-67",
                                  "traceparent": f"00-{TRACE}-{PARENT}-01"})

            def found():
                return [line for line in daemon.said().splitlines() if "order-67" in line]
            told = serve.polled(found, len, "the line of the request")
            for line in told:
                fields = json.loads(line) if form == "json" else text_fields(line)
                assert fields["request_id"] == "order-67" and fields["tenant"] == "local", line
                assert fields["session"] == made and fields["trace_id"] == TRACE, line
            daemon.end(made)


BAD_TRACES = ("", "00", f"00-{TRACE}-{PARENT}", f"00-{TRACE}-{PARENT}-01-x", f"ff-{TRACE}-{PARENT}-01",
              f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01",
              f"00-{TRACE}x-{PARENT}-01", f" {TRACE}", "x" * 4000)


def test_a_bad_trace_is_as_none():
    with serve.Daemon({"BAILEY_LOG": "info", "BAILEY_LOG_FORMAT": "json"}) as daemon:
        made = daemon.session()["id"]
        for number, trace in enumerate(BAD_TRACES):
            reply = daemon.asked("POST", f"/v1/sessions/{made}/exec", {"argv": ["true"]},
                                 headers={"traceparent": trace, "X-Request-Id": f"bad-{number}"})
            assert "trace_id" not in reply.json()["meta"], trace
        # A later version may have more behind it, and one that is sound is in every result.
        for version in (f"00-{TRACE}-{PARENT}-00", f"01-{TRACE}-{PARENT}-01-more"):
            for path, body in ((f"/v1/sessions/{made}/exec", {"argv": ["true"]}),
                               (f"/v1/sessions/{made}/code", {"code": "1"}),
                               ("/v1/run", {"code": "1"}), ("/execute", {"code": "1"})):
                reply = daemon.asked("POST", path, body, headers={"traceparent": version})
                assert reply.json()["meta"]["trace_id"] == TRACE, (path, reply)
        for line in lines(daemon):
            if line.get("request_id", "").startswith("bad-"):
                assert "trace_id" not in line and "parent_id" not in line, line
        said = [json.loads(line) for line in daemon.said().splitlines()]
        assert not [one for one in said if one.get("request_id", "").startswith("bad-")
                    and "trace_id" in one], said
        daemon.end(made)


def plant(daemon, call, secrets):
    """Each of them where somebody may put one; nothing of it may be said again."""
    headers = {"Authorization": f"Bearer {secrets['bearer']}", "X-API-Key": secrets["bearer"],
               "Cookie": f"k={secrets['cookie']}", "X-Other": secrets["header"]}
    call("POST", "/v1/run", {"language": "python", "env": {"A": secrets["env"]},
                             "code": f"print('{secrets['code']}'); exit(3)",
                             "stdin": secrets["stdin"]}, headers=headers)
    call("POST", "/execute", {"code": f"print('{secrets['code']}')",
                              "files": {"f": secrets["file"]}}, headers=headers)
    call("GET", f"/v1/info?key={secrets['query']}&api_key={secrets['query']}", headers=headers)
    call("GET", f"/nowhere?token={secrets['query']}", headers=headers)
    call("DELETE", f"/v1/keys/{secrets['path']}", headers=headers)
    call("POST", "/v1/run", {"code": 1, secrets["query"]: secrets["env"]}, headers=headers)
    made = daemon.session(env={"B": secrets["env"]})["id"]
    daemon.exec(made, "echo", secrets["argv"], secrets["output"], env={"C": secrets["env"]})
    daemon.write(made, "/workspace/f", secrets["file"].encode())
    daemon.post("/v1/tools/sandbox_write_file", {"file_path": "/tmp/f", "content": secrets["file"]},
                session=made)
    call("GET", f"/v1/sessions/{made}/outputs/x?signature={secrets['query']}", headers=headers)
    daemon.end(made)


def first_key(daemon, form):
    """Printed once, at the start; a log in JSON has the name of its file only."""
    if form == "text":
        return KEY.search(daemon.said()).group(0)
    with open(re.search(r'"api_key_file":"([^"]+)"', daemon.said()).group(1), encoding="ascii") as file:
        return file.read().strip()


def test_no_secret_is_said():
    """In the log of every level and form, and in the audit where code is not kept."""
    secrets = {name: f"planted-{name}-7c1d" for name in (
        "cookie", "header", "query", "code", "env", "stdin", "file", "argv", "output")}
    for form in ("text", "json"):
        with tenants.Server({"BAILEY_LOG": "debug", "BAILEY_LOG_FORMAT": form,
                             "SANDBOX_STORE_CODE": "never"}) as daemon:
            first = first_key(daemon, form)
            good = daemon.caller("t", ["run", "sessions", "files", "admin"])
            wrong = good.text[:-6] + "wrong0"
            for text in (good.text, wrong, first):
                secrets["bearer"] = secrets["path"] = text
                plant(daemon, daemon.anybody().call, secrets)
            plant(daemon, daemon.call, secrets)  # over the socket nobody looks at them
            said = serve.polled(daemon.said, lambda text: text.count("/nowhere") >= 4,
                                "the last request")
            told = audit_file(daemon).read_text()
            assert '"exec"' in told and '"denied"' in told, told
            for text in (good.text, wrong):
                assert text.partition(".")[2] not in said + told, form
            assert said.count(first) == (form == "text") and first not in told, form
            for name, secret in secrets.items():
                assert name in ("bearer", "path") or secret not in said + told, (form, name)
