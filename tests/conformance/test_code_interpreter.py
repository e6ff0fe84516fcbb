"""code_interpreter of POST /v1/responses: with each runtime code runs; a box that does not come in time, or
not at all, is an error that the model reads, and never a failed response. For the latter the provider of
the tests makes boxes that are never ready (333 MB), and none (334 MB)."""
import model_server
import pytest
import support
import tcp

CODE = [{"type": "code_interpreter", "container": {"type": "auto"}}]
NEVER_READY, FAILS = "333MB", "334MB"


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        running.script("sum", [model_server.code("print(6*7)"), model_server.text("It is 42")])
        running.script("twice", [model_server.code("print(1)", id="a"),
                                 model_server.code("print(2)", id="b"), model_server.text("sorry")])
        yield running


def need_clone(runtime):
    if runtime != "clone":
        pytest.skip("boxes that never come need the provider of a build with -Dtest_provider=true")


def serving(model, **env):
    return tcp.Server({"BAILEY_UPSTREAM_URL": model.url, "SANDBOX_POOL_SIZE": "0", **env})


def ask(server, name):
    reply = server.tcp("POST", "/v1/responses", {"model": name, "input": "Go", "tools": CODE,
                                                 "include": ["code_interpreter_call.outputs"]})
    assert reply.status == 200, reply
    return reply.json()


def told(model, name):
    """What the model read of its calls, in its last request."""
    return [one["content"] for one in model.requests(name)[-1]["body"]["messages"]
            if one["role"] == "tool"]


def test_code_runs(runtime, model):
    with serving(model) as server:
        response = ask(server, "sum")
        assert response["output"][0]["outputs"] == [{"type": "logs", "logs": "42\n"}]
        assert response["status"] == "completed"
        server.tcp("DELETE", f"/v1/containers/{response['output'][0]['container_id']}")


def refused(model, response):
    """Both calls were answered to the model, which then ended the response itself."""
    assert response["status"] == "completed" and response["error"] is None, response
    first, second, message = response["output"]
    assert [first["status"], second["status"]] == ["failed", "failed"]
    assert message["content"][0]["text"] == "sorry"
    results = told(model, "twice")
    assert len(results) == 2 and all("the code was not run" in one for one in results), results
    return results


def test_a_box_that_is_not_ready_in_time_is_an_error_that_the_model_reads(runtime, model):
    need_clone(runtime)
    with serving(model, SANDBOX_MEMORY_LIMIT=NEVER_READY,
                 BAILEY_CODE_INTERPRETER_CLAIM_TIMEOUT="0.2s") as server:
        results = refused(model, ask(server, "twice"))
        assert all("in time (claim_timeout)" in one for one in results), results


def test_a_box_that_cannot_be_made_is_an_error_that_the_model_reads(runtime, model):
    need_clone(runtime)
    with serving(model, SANDBOX_MEMORY_LIMIT=FAILS) as server:
        results = refused(model, ask(server, "twice"))
        assert all("No sandbox could be had, so" in one for one in results), results
        assert all("a test has no room for boxes" in one for one in results), results


def test_cancelling_while_a_box_is_waited_for_ends_the_response(runtime, model):
    need_clone(runtime)
    with serving(model, SANDBOX_MEMORY_LIMIT=NEVER_READY) as server:
        made = server.tcp("POST", "/v1/responses", {"model": "sum", "input": "Go", "tools": CODE,
                                                    "background": True}).json()
        path = f"/v1/responses/{made['id']}"

        def is_waiting():
            return [one["status"] for one in server.tcp("GET", path).json()["output"]
                    if one["type"] == "code_interpreter_call"] or server.get("/v1/sessions")["sessions"]
        support.wait_until(is_waiting, "a box is waited for")
        assert server.tcp("POST", path + "/cancel").json()["status"] == "cancelled"
        assert server.tcp("GET", path).json()["status"] == "cancelled"
