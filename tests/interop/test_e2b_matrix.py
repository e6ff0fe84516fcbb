"""Old versions of E2B's packages, its command line, and what LangChain and Vercel's AI SDK do with it. They need a
while to be installed, so they run where BAILEY_CLIENT_MATRIX is set (`make test-clients`)."""
import json
import os
import shutil

import e2b_kit
import model_server
import pytest
import sdk_server

pytestmark = [
    pytest.mark.skipif(not os.environ.get("BAILEY_CLIENT_MATRIX"), reason="`make test-clients` runs old versions"),
    pytest.mark.skipif(not shutil.which("node"), reason="node is not installed"),
]


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        running.script("tool", [[*model_server.call('{"code": "6 * 7"}', name="execute_python"),
                                 *model_server.end("tool_calls")], model_server.text("It is ", "42")])
        running.script("sum", [model_server.code("print(6*7)"), model_server.text("It is ", "42")])
        yield running


@pytest.fixture(scope="module")
def server(model):
    with e2b_kit.E2bServer({"BAILEY_UPSTREAM_URL": model.url}) as running:
        yield running


@pytest.mark.parametrize("row", ["commands", "files", "signing", "terminals", "lifecycle", "pausing", "asynchronous"])
def test_an_old_python_package(server, row):
    e2b_kit.run_python(server, "e2b-py-old", row)


@pytest.mark.parametrize("version", ["e2b-js-2.30", "e2b-js-2.15", "e2b-js-2.7"])
@pytest.mark.parametrize("row", ["commands", "files", "lifecycle", "pausing"])
def test_an_old_npm_package(server, version, row):
    e2b_kit.run_node(server, version, row)


def test_the_command_line_lists_and_ends_sandboxes(server):
    cli = sdk_server.interop_cache("e2b-cli") / "e2b-cli" / "node_modules" / ".bin" / "e2b"
    made = json.loads(e2b_kit.run(server, [
        "curl", "-s", "-X", "POST", "-H", f"X-API-Key: {server.e2b_key}", "-d", '{"templateID":"base"}',
        f"{server.url}/v2/sandboxes"]))["sandboxID"]
    assert made in e2b_kit.run(server, [str(cli), "sandbox", "list", "--format", "json"])
    e2b_kit.run(server, [str(cli), "sandbox", "kill", made])
    assert made not in e2b_kit.run(server, [str(cli), "sandbox", "list", "--format", "json"])


def test_langchains_integration(server):
    e2b_kit.run_python(server, "e2b-langchain", "deep_agents")


def test_vercels_ai_sdk(server, model):
    e2b_kit.run_node(server, "e2b-ai-sdk", "ai_sdk", MODEL_URL=model.url)
