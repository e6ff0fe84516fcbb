"""CodeInterpreterSession over the server's model server, and pausing, with the Python SDK; a scripted model answers."""
import asyncio

import model_server
import pytest
import serve
from model_server import code, text

from sdk_kit import Driver, bailey


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        yield running


@pytest.fixture(scope="module")
def daemon(model):
    with serve.Daemon({"BAILEY_UPSTREAM_URL": model.url, "BAILEY_UPSTREAM_KEY": "k"}) as running:
        yield running
        assert running.get("/v1/sessions")["sessions"] == []


@pytest.fixture(params=["sync", "async"])
def make(request, daemon):
    """Makes an object of a class of either kind."""
    where = {"url": f"unix://{daemon.socket}"}
    loop = asyncio.new_event_loop()

    def made(kind, *args, **kwargs):
        if request.param == "sync":
            return getattr(bailey, kind)(*args, **kwargs, **where)
        return Driver(loop, getattr(bailey, "Async" + kind)(*args, **kwargs, **where))

    yield made
    loop.close()


def test_the_servers_model_answers_with_code_and_files(make, model, tmp_path, capfd):
    table = tmp_path / "sales.csv"
    table.write_text("a,b\n1,2\n")
    name = model.script("sdk", [
        code("n = globals().get('n', 0) + len(open('/mnt/data/sales.csv').read().split())\nprint(n)\n"
             "with open('/tmp/output/made.bin', 'wb') as file: count = file.write(b'\\0\\1')"),
        text("Two rows.")])
    with make("CodeInterpreterSession", name, verbose=True) as session:
        reply = session.generate_response("How many?", files=[table])
        assert (reply.content, [(one.name, one.content) for one in reply.files]) == (
            "Two rows.", [("made.bin", b"\0\1")])
        assert [output for _, output in reply.code_log] == ["2\n"]
        again = session.generate_response("Again?")  # the variable is still there
        assert [output for _, output in again.code_log] == ["4\n"]
        assert [message["role"] for message in session.messages] == ["user", "assistant"] * 2
        sent = [one["content"] for one in model.requests(name)[-1]["body"]["messages"] if one["role"] == "user"]
        assert [text.split("\n")[0] for text in sent] == ["How many?", "Again?"]
    said = capfd.readouterr().err
    assert "[code] n = globals()" in said and "[output] 4\n" in said and "[model] Two rows." in said


def test_what_only_a_function_can_have_is_refused(make):
    for more in ({"max_steps": 3}, {"system_prompt": "be brief"}):
        with pytest.raises(bailey.InvalidRequestError, match="need a function"):
            make("CodeInterpreterSession", "a name", **more)
    with pytest.raises(bailey.InvalidRequestError, match="has to be a function"):
        make("CodeInterpreterSession", 7)


def test_a_server_without_a_model_server_says_so():
    with serve.Daemon() as plain:
        with bailey.CodeInterpreterSession(url=f"unix://{plain.socket}") as session:
            with pytest.raises(bailey.SandboxError) as caught:
                session.generate_response("hello")
        assert (caught.value.code, caught.value.status) == ("no_model_server", 503)


def test_a_paused_sandbox_goes_on_where_it_was(make):
    with make("Sandbox") as sandbox:
        sandbox.run_code("x = 6")
        assert sandbox.pause()["state"] == "paused"
        with pytest.raises(bailey.ConflictError) as caught:
            sandbox.run_code("x")
        assert caught.value.code == "session_paused"
        assert sandbox.resume()["state"] != "paused"
        assert sandbox.run_code("x * 7").text == "42"
